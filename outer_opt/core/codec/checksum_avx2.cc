// Compiled with AVX2 on x86-64 (see CMakeLists.txt); called only where the processor has it.
#include "outer_opt/core/codec/checksum_kernel.h"

namespace shoal::outer_opt {

#if defined(__AVX2__)
const ChecksumKernel kChecksumAvx2{hash_once, hash_reset, hash_update, hash_finish};
#else
const ChecksumKernel kChecksumAvx2{};
#endif

}  // namespace shoal::outer_opt
