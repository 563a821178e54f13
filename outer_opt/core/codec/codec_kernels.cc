// The choice of the kernels at run time, once per process.
#include "outer_opt/core/codec/codec_kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace shoal::outer_opt {
namespace {

// Every processor with AVX2 that was built has F16C, but a hypervisor may hide it.
bool has_avx2_and_f16c() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C);
#else
  return false;
#endif
}

}  // namespace

const KernelSet& reference_kernels() {
  static const KernelSet set{kFp32Reference, kFp16Reference, kBf16Reference,
                             kInt8Reference, kInt4Reference, kE3m0Reference};
  return set;
}

const KernelSet& fastest_kernels() {
  static const KernelSet avx2{kFp32Avx2, kFp16Avx2, kBf16Avx2, kInt8Avx2, kInt4Avx2, kE3m0Avx2};
  static const KernelSet& chosen = has_avx2_and_f16c() ? avx2 : reference_kernels();
  return chosen;
}

}  // namespace shoal::outer_opt
