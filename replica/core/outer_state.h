// What the replicas of a stage share bit for bit after a commit; where rounds go in groups
// (outer_opt/core/round/groups.h) each replica has its own. Which vectors are in use follows from
// the algorithm: OuterAlgorithm::zero_state().
#pragma once

#include <cstdint>
#include <vector>

#include "base/digest.h"
#include "outer_opt/core/step/momentum_shards.h"

namespace shoal::replica {

struct OuterState {
  std::vector<float> anchor;          // parameters after the newest outer step
  std::vector<float> momentum;        // of the outer optimizer, as long as the anchor; or empty
  outer_opt::MomentumShards shards;   // the ranges of it that this replica keeps, when sharded
  std::vector<float> adam_m, adam_v;  // AdamW's moments; with ddp only

  bool shares_adam() const { return !adam_m.empty(); }
};

// "anchor" and "momentum" of every message. The momentum's is that of all that the outer step keeps
// beside the anchor, zero when it is sharded: no replica could take the digest of all.
struct StateDigests {
  Digest anchor, momentum;
  bool operator==(const StateDigests&) const = default;
};
StateDigests digests_of(const OuterState& state);

}  // namespace shoal::replica
