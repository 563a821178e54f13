// The measurement of shoal-kernels.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace shoal::bench {

struct KernelsOptions {
  std::int64_t values = std::int64_t{1} << 30;  // less where the device has no room for them
  int repeats = 10;
  bool json = false;
};

// On device 0, which must be there. Prints a table or JSON. kDataLoss when a variant does not give
// the bytes of the CPU.
Status run_kernels(const KernelsOptions& options);

}  // namespace shoal::bench
