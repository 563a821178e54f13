// The portable version and the choice between the two.
#include "outer_opt/core/codec/checksum_kernel.h"

namespace shoal::outer_opt {

const ChecksumKernel kChecksumPortable{hash_once, hash_reset, hash_update, hash_finish};

const ChecksumKernel& checksum_kernel() {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) return kChecksumAvx2;
#endif
  return kChecksumPortable;
}

}  // namespace shoal::outer_opt
