// See training_vectors.h.
#include "base/training_vectors.h"

namespace shoal {

std::int64_t training_vectors(const SyncSpec& sync) {
  constexpr std::int64_t kAlways = 8;
  const bool robust = sync.aggregator != Aggregator::kMean;
  const bool residual = sync.codec == CodecKind::kSparse2;
  return kAlways + (robust ? 1 : 0) + (residual ? 1 : 0);
}

}  // namespace shoal
