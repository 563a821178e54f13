// Chooses the instruction set once. The sets themselves are cpu_kernels_impl.cc, compiled with
// SHOAL_KERNEL_SET naming each.
#include "trainer/plain/cpu_kernels.h"

namespace shoal::trainer {

namespace baseline {
extern const CpuKernels kKernels;
}
#ifdef SHOAL_KERNELS_X86
namespace avx2 {
extern const CpuKernels kKernels;
}
namespace avx512 {
extern const CpuKernels kKernels;
}
#endif

const CpuKernels& cpu_kernels() {
#ifdef SHOAL_KERNELS_X86
  static const CpuKernels& chosen = [&]() -> const CpuKernels& {
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (avx512) return avx512::kKernels;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kKernels;
    return baseline::kKernels;
  }();
  return chosen;
#else
  return baseline::kKernels;
#endif
}

}  // namespace shoal::trainer
