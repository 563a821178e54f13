# libtorch: Debian's 1.13, or a PyTorch 2.x that CMAKE_PREFIX_PATH names.
macro(shoal_find_torch)
  # With CUDA its configuration would otherwise compile a program that asks the GPUs of this host, for which CMake must
  # know the dialects of the toolkit (3.25 does not know those of CUDA 13). No source here is compiled with the result.
  if(NOT DEFINED TORCH_CUDA_ARCH_LIST)
    list(TRANSFORM SHOAL_CUDA_ARCHITECTURES REPLACE "([0-9])$" ".\\1" OUTPUT_VARIABLE TORCH_CUDA_ARCH_LIST)
  endif()
  find_package(Torch REQUIRED)
endmacro()
