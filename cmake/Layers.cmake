# Folder = library = permitted dependencies.
#
#   pure_library(name SOURCES a.cc … DEPS other_pure …)      no clock, socket, thread, file, global or
#       unseeded randomness; may depend on pure libraries only, and include headers of its own folder
#       and of theirs only. All of this stops the configure step. A link test loads the whole archive
#       against exactly its declared dependencies.
#   shoal_library(name SOURCES … DEPS …)                      everything else
#   shoal_binary(name SOURCES … DEPS …)                       lands in bin/
#   shoal_test(name SOURCES … DEPS …)                         one GoogleTest binary, one ctest entry;
#       HEADERS target: with the precompiled headers of that one; HEADERS none: torch's flags fit none
#   shoal_test_library(name SOURCES … DEPS …)                 what several of them share

define_property(GLOBAL PROPERTY SHOAL_PURE_LIBRARIES BRIEF_DOCS "names of pure libraries")
define_property(GLOBAL PROPERTY SHOAL_REGISTERED_TESTS BRIEF_DOCS "paths of *_test.cc in a shoal_test")

# What a pure source must not say, as a regular expression per line. Comments are not stripped: a
# comment about a clock belongs to the code that has one.
set(SHOAL_PURE_FORBIDDEN
    "#include <(chrono|thread|mutex|shared_mutex|condition_variable|future|atomic|random|fstream|iostream|filesystem|ctime|unistd.h|fcntl.h|sys/|netinet/|arpa/|unordered_map|unordered_set)"
    "std::(random_device|shuffle|async|thread|hash<|getenv|system_clock|steady_clock)"
    "[^_a-z](rand|srand|time|getenv|clock_gettime)[(]"
    "#include [<\"](torch|ATen|grpcpp|grpc|boost|sqlite3|prometheus|spdlog|cuda)")

function(_shoal_refuse_impure_source name source)
  file(STRINGS ${source} lines)
  foreach(pattern IN LISTS SHOAL_PURE_FORBIDDEN)
    foreach(line IN LISTS lines)
      if(line MATCHES "${pattern}" AND NOT line MATCHES "^ *//")
        message(FATAL_ERROR "${name} is pure; ${source} may not say: ${line}")
      endif()
    endforeach()
  endforeach()
endfunction()

# An include is an arrow, too, even where nothing is linked for it.
function(_shoal_refuse_foreign_include name source)
  get_property(sees GLOBAL PROPERTY SHOAL_FOLDERS_SEEN_BY_${name})
  file(STRINGS ${source} includes REGEX "^#include \"")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "^#include \"(.*)/[^/]*\".*" "\\1" folder ${include})
    if(NOT folder IN_LIST sees)
      message(FATAL_ERROR "${name} sees ${sees}; ${source} may not say: ${include}")
    endif()
  endforeach()
endfunction()

function(pure_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  get_property(pure GLOBAL PROPERTY SHOAL_PURE_LIBRARIES)
  foreach(dep IN LISTS ARG_DEPS)
    if(NOT dep IN_LIST pure)
      message(FATAL_ERROR "${name} is pure and may not depend on ${dep}, which is not")
    endif()
  endforeach()
  file(RELATIVE_PATH sees ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(dep IN LISTS ARG_DEPS)
    get_property(through GLOBAL PROPERTY SHOAL_FOLDERS_SEEN_BY_${dep})
    list(APPEND sees ${through})
  endforeach()
  list(REMOVE_DUPLICATES sees)
  set_property(GLOBAL PROPERTY SHOAL_FOLDERS_SEEN_BY_${name} ${sees})

  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  foreach(source IN LISTS ARG_SOURCES headers)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    _shoal_refuse_impure_source(${name} ${source})
    _shoal_refuse_foreign_include(${name} ${source})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY SHOAL_PURE_LIBRARIES ${name})

  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  if(SHOAL_TESTS)
    set(main ${CMAKE_BINARY_DIR}/link_test_main.cc)
    if(NOT EXISTS ${main})
      file(WRITE ${main} "int main() { return 0; }\n")
    endif()
    add_executable(${name}_link_test ${main})
    set_target_properties(${name}_link_test PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/link_tests)
    target_link_libraries(${name}_link_test PRIVATE -Wl,--whole-archive ${name} -Wl,--no-whole-archive)
  endif()
endfunction()

function(shoal_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} Threads::Threads)
endfunction()

function(shoal_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} Threads::Threads)
endfunction()

# What a test does is done in libraries: -O2 would only make it compile a third longer. GoogleTest
# and the containers are a third of that again: all tests share one precompiled header, and with it
# -pthread, which gRPC brings to some. GCC 12 warns of overflows inside of std::string.
function(_shoal_compile_as_test name headers)
  if(NOT TARGET shoal_test_headers)
    set(empty ${CMAKE_BINARY_DIR}/test_headers.cc)
    if(NOT EXISTS ${empty})
      file(WRITE ${empty} "")
    endif()
    add_library(shoal_test_headers OBJECT ${empty})
    target_link_libraries(shoal_test_headers PRIVATE GTest::gmock GTest::gtest)
    target_compile_options(shoal_test_headers PRIVATE -pthread $<$<CONFIG:RelWithDebInfo>:-O1>)
    target_precompile_headers(shoal_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> <algorithm> <functional>
                              <map> <memory> <optional> <string> <variant> <vector>)
  endif()
  if(NOT headers)
    set(headers shoal_test_headers)
    set(threads -pthread)
  endif()
  target_compile_options(${name} PRIVATE ${threads} -Wno-array-bounds -Wno-stringop-overflow
                         $<$<CONFIG:Release>:-Wno-stringop-overread> $<$<CONFIG:RelWithDebInfo>:-O1>)
  if(NOT headers STREQUAL none)
    target_precompile_headers(${name} REUSE_FROM ${headers})
  endif()
endfunction()

# Code that only tests use, compiled once for all of them.
function(shoal_test_library name)
  if(NOT SHOAL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} GTest::gmock GTest::gtest)
  _shoal_compile_as_test(${name} "")
endfunction()

function(shoal_test name)
  if(NOT SHOAL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT;HEADERS" "SOURCES;DEPS;DEFINITIONS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINITIONS})
  _shoal_compile_as_test(${name} "${ARG_HEADERS}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  foreach(source IN LISTS ARG_SOURCES)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_property(GLOBAL APPEND PROPERTY SHOAL_REGISTERED_TESTS ${source})
  endforeach()
endfunction()

# A test file that no target compiles would look like a passing test.
function(shoal_check_every_test_is_registered)
  if(NOT SHOAL_TESTS)
    return()
  endif()
  get_property(registered GLOBAL PROPERTY SHOAL_REGISTERED_TESTS)
  set(tops ${SHOAL_ALL_FOLDERS})
  list(TRANSFORM tops REPLACE "/.*" "")
  list(REMOVE_DUPLICATES tops)
  if(NOT SHOAL_TRAINER)
    list(REMOVE_ITEM tops trainer bench)
  elseif(NOT SHOAL_BENCH)
    list(REMOVE_ITEM tops bench)
  endif()
  list(TRANSFORM tops REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/\\1/*_test.cc")
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${tops})
  if(NOT SHOAL_HAVE_CUDA)
    list(FILTER tests EXCLUDE REGEX "/outer_opt/cuda/device_")
  endif()
  if(NOT SHOAL_HAVE_NCCL)
    list(FILTER tests EXCLUDE REGEX "/swarm/cuda/nccl_test")
  endif()
  foreach(test IN LISTS tests)
    if(NOT test IN_LIST registered)
      message(FATAL_ERROR "${test} belongs to no shoal_test()")
    endif()
  endforeach()
endfunction()
