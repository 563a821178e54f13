// A GPU as an Accelerator. Its queues are CUDA streams that do not wait for each other; its pinned
// memory is the host's, so that copies run beside kernels. Every thread may use it: each call names
// the device first.
#pragma once

#include <memory>

#include "outer_opt/cuda/accelerator.h"

namespace shoal::outer_opt {

// kNotFound when there is no such device, kInternal with CUDA's own words otherwise.
Result<std::unique_ptr<Accelerator>> make_cuda_accelerator(int device);

}  // namespace shoal::outer_opt
