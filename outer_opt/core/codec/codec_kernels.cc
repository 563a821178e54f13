// The choice of the kernels at run time, once per process.
#include "outer_opt/core/codec/codec_kernels.h"

#include "outer_opt/core/codec/codec_traits.h"

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

const CodecKernels& reference_kernels(CodecKind kind) { return *traits_of(kind).reference; }

const CodecKernels& fastest_kernels(CodecKind kind) {
  static const bool avx2 = has_avx2_and_f16c();
  return avx2 ? *traits_of(kind).avx2 : reference_kernels(kind);
}

}  // namespace shoal::outer_opt
