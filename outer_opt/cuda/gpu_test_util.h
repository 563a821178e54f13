// For tests: the GPU of this machine, where there is one and the build has CUDA.
#pragma once

#include <memory>

#include "outer_opt/cuda/accelerator.h"
#if SHOAL_HAVE_CUDA
#include "outer_opt/cuda/cuda_accelerator.h"
#endif

namespace shoal::outer_opt {

inline constexpr char kNoGpu[] = "no CUDA device on this machine, or built without CUDA";

inline std::unique_ptr<Accelerator> test_gpu() {
#if SHOAL_HAVE_CUDA
  auto device = make_cuda_accelerator(0);
  if (device) return std::move(*device);
#endif
  return nullptr;
}

}  // namespace shoal::outer_opt
