// What the replicas of a stage share bit for bit after a commit; where rounds go in groups
// (outer_opt/core/round/groups.h) each replica has its own. Which vectors are in use follows from
// the algorithm: OuterAlgorithm::zero_state().
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/named_vectors.h"
#include "outer_opt/core/step/momentum_shards.h"

namespace shoal::replica {

// The moments of the inner AdamW, which the replicas of a ddp job share. They are no vectors of an
// outer optimizer: a checkpoint stores them as the inner optimizer's.
inline constexpr std::string_view kSharedMoments[] = {"shared_adam_m", "shared_adam_v"};

struct OuterState {
  std::vector<float> anchor;         // parameters after the newest outer step
  NamedVectors vectors;              // that the outer step keeps, each as long as the anchor
  outer_opt::MomentumShards shards;  // of outer momentum, when it is sharded

  bool shares_adam() const { return find_vector(vectors, kSharedMoments[0]) != nullptr; }
};

// "anchor" and "momentum" of every message. The momentum's is that of all vectors that the outer
// step keeps, one after the other; zero when they are sharded, because no replica has all values.
struct StateDigests {
  Digest anchor, momentum;
  bool operator==(const StateDigests&) const = default;
};
StateDigests digests_of(const OuterState& state);

}  // namespace shoal::replica
