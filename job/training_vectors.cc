// See training_vectors.h.
#include "job/training_vectors.h"

#include <algorithm>

namespace shoal {

double training_vectors(const JobSpec& spec) {
  constexpr double kAlways = 7;
  const SyncOptions sync = spec.sync.options();
  const bool robust = sync.aggregator != Aggregator::kMean;
  const bool residual = sync.codec == CodecKind::kSparse2;
  const auto replicas = static_cast<double>(std::max<std::int64_t>(2, spec.swarm.min_replicas));
  const double momentum = sync.outer_state == OuterState::kSharded ? 2 / replicas : 1;
  const double eager = sync.eager ? 1 + 1 / static_cast<double>(sync.fragments) : 0;
  return kAlways + momentum + (robust ? 1 : 0) + (residual ? 1 : 0) + eager;
}

}  // namespace shoal
