# CUDA objects without CUDA as a CMake language: nvcc compiles the .cu files, everything else, linking too, stays
# with the C++ compiler. Defines SHOAL_HAVE_CUDA, SHOAL_HAVE_NCCL (then there is a target shoal_nccl) and
#   shoal_cuda_object(OUT file.cu)     the path of its object; -fmad=false and IEEE division keep the bits of the CPU
set(SHOAL_CUDA AUTO CACHE STRING "CUDA kernels: ON, OFF, or AUTO, which is ON where a CUDA toolkit 12 or newer is found")
set(SHOAL_CUDA_ARCHITECTURES "80;90" CACHE STRING "Compute capabilities, the last one as PTX, too")
set(SHOAL_HAVE_CUDA OFF)
if(NOT SHOAL_CUDA STREQUAL OFF)
  # CMake 3.25 sets a property of this target even where the toolkit, from 13 on, has no such library.
  if(NOT TARGET CUDA::nvToolsExt)
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(SHOAL_HAVE_CUDA ON)
  elseif(NOT SHOAL_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "SHOAL_CUDA=${SHOAL_CUDA} needs the CUDA toolkit 12 or newer with nvcc in PATH")
  endif()
endif()
message(STATUS "CUDA kernels: ${SHOAL_HAVE_CUDA}")

# Optional. Non-blocking communicators came with NCCL 2.14.
set(SHOAL_HAVE_NCCL OFF)
if(SHOAL_HAVE_CUDA)
  find_path(SHOAL_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(SHOAL_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(SHOAL_NCCL_INCLUDE AND SHOAL_NCCL_LIBRARY)
    file(STRINGS ${SHOAL_NCCL_INCLUDE}/nccl.h nccl_version REGEX "^#define NCCL_(MAJOR|MINOR) ")
    string(REGEX REPLACE "[^0-9;]" "" nccl_version "${nccl_version}")
    list(JOIN nccl_version "." nccl_version)
    if(nccl_version VERSION_GREATER_EQUAL 2.14)
      set(SHOAL_HAVE_NCCL ON)
      add_library(shoal_nccl INTERFACE)
      target_include_directories(shoal_nccl SYSTEM INTERFACE ${SHOAL_NCCL_INCLUDE})
      target_link_libraries(shoal_nccl INTERFACE ${SHOAL_NCCL_LIBRARY})
    endif()
  endif()
endif()
message(STATUS "NCCL for replica groups: ${SHOAL_HAVE_NCCL}")

function(shoal_cuda_object out source)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
  set(flags -std=c++20 -O3 -fmad=false -prec-div=true -ftz=false --expt-relaxed-constexpr -lineinfo
            -Xcompiler=-fPIC,-Wall)
  foreach(architecture IN LISTS SHOAL_CUDA_ARCHITECTURES)
    list(APPEND flags -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET SHOAL_CUDA_ARCHITECTURES -1 newest)
  list(APPEND flags -gencode=arch=compute_${newest},code=compute_${newest})
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} ${flags} -I${CMAKE_SOURCE_DIR} -MD -MF ${object}.d -MT ${object}
            -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPFILE ${object}.d
    COMMENT "Building CUDA object ${source}"
    VERBATIM)
  set(${out} ${object} PARENT_SCOPE)
endfunction()
