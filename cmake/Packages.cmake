# What `cmake --install` puts on a host of a cluster, and Debian packages of it (`./dev package`):
# shoal, shoal-coordinator and shoal-agent, the latter with trainer and reducer. Tests, benchmarks
# and the simulator stay here.
include(GNUInstallDirs)
set(SHOAL_DOC share/doc)

function(shoal_install component)
  foreach(program IN LISTS ARGN)
    if(TARGET ${program})
      install(TARGETS ${program} COMPONENT ${component})
    endif()
  endforeach()
  set(unit ${CMAKE_SOURCE_DIR}/deploy/${component})
  if(EXISTS ${unit}.service)
    install(FILES ${unit}.service DESTINATION lib/systemd/system COMPONENT ${component})
    install(FILES ${unit}.sysusers.conf DESTINATION lib/sysusers.d RENAME ${component}.conf
            COMPONENT ${component})
  endif()
  install(FILES ${CMAKE_SOURCE_DIR}/deploy/debian/copyright
                ${CMAKE_BINARY_DIR}/package/changelog.gz
                ${CMAKE_BINARY_DIR}/package/changelog.Debian.gz
          DESTINATION ${SHOAL_DOC}/${component} COMPONENT ${component})
endfunction()
# To be set by those who build packages for others.
set(SHOAL_MAINTAINER "Shoal developers <developers@shoal.invalid>" CACHE STRING
    "Name and address of the packages' maintainer")
find_program(GZIP_PROGRAM gzip REQUIRED)
function(shoal_compress from to)
  execute_process(COMMAND ${GZIP_PROGRAM} --best --no-name --stdout ${from}
                  OUTPUT_FILE ${CMAKE_BINARY_DIR}/package/${to} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
string(TIMESTAMP SHOAL_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)  # or SOURCE_DATE_EPOCH
configure_file(${CMAKE_SOURCE_DIR}/deploy/debian/changelog.in ${CMAKE_BINARY_DIR}/package/changelog.Debian
               @ONLY)
shoal_compress(${CMAKE_SOURCE_DIR}/CHANGELOG.md changelog.gz)
shoal_compress(${CMAKE_BINARY_DIR}/package/changelog.Debian changelog.Debian.gz)

shoal_install(shoal shoal)
shoal_install(shoal-coordinator shoal-coordinator)
shoal_install(shoal-agent shoal-agent shoal-trainer shoal-reducer)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL shoal shoal-coordinator shoal-agent)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${SHOAL_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_SHOAL_PACKAGE_NAME shoal)
set(CPACK_DEBIAN_SHOAL_DESCRIPTION "command line of a Shoal cluster
Submits training jobs, watches them, and looks after the agents of a cluster.
`shoal up` starts a cluster on this host for trying things out; for that it
needs the packages shoal-coordinator and shoal-agent.")
set(CPACK_DEBIAN_SHOAL_PACKAGE_SUGGESTS "shoal-coordinator, shoal-agent")
set(system "systemd | systemd-standalone-sysusers")
foreach(component COORDINATOR AGENT)
  string(TOLOWER ${component} name)
  set(folder ${CMAKE_SOURCE_DIR}/deploy/debian/${name})
  set(CPACK_DEBIAN_SHOAL-${component}_PACKAGE_NAME shoal-${name})
  set(CPACK_DEBIAN_SHOAL-${component}_PACKAGE_DEPENDS "${system}")
  set(CPACK_DEBIAN_SHOAL-${component}_PACKAGE_CONTROL_EXTRA ${folder}/postinst ${folder}/prerm ${folder}/postrm)
endforeach()
set(CPACK_DEBIAN_SHOAL-COORDINATOR_DESCRIPTION "coordinator of a Shoal cluster
Assigns agents to the stages of training jobs, watches them, and keeps the
state of the cluster in SQLite. Serves the REST API, a dashboard and metrics.")
# Without this OpenBLAS libtorch multiplies matrices with the reference BLAS, 12 times slower.
set(CPACK_DEBIAN_SHOAL-AGENT_PACKAGE_DEPENDS "${system}, libopenblas0-pthread")
set(CPACK_DEBIAN_SHOAL-AGENT_PACKAGE_SUGGESTS "python3-torch")
set(CPACK_DEBIAN_SHOAL-AGENT_DESCRIPTION "agent of a host that trains for a Shoal cluster
Joins a cluster with the devices of this host and runs a trainer on each of
them. Replicas average with their peers over slow and unreliable lines.")
include(CPack)
