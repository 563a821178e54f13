// What all replicas of a stage share bit for bit after a commit, and how the outer step changes it.
// Where rounds go in groups (outer_opt/core/round/groups.h) each replica has its own; the momentum
// is what moved it last.
//
// With sync.algorithm = ddp a round is one inner step, and the outer step is the AdamW step: its
// moments are shared then, and there is no outer momentum. With sync.outer_state = sharded each
// replica keeps parts of the outer momentum (outer_opt/core/step/momentum_shards.h). Values only:
// no torch.
#pragma once

#include <span>
#include <vector>

#include "base/digest.h"
#include "outer_opt/core/round/round.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/momentum_shards.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {

struct OuterState {
  std::vector<float> anchor;
  std::vector<float>
      momentum;  // of the outer optimizer (nesterov.h); empty with ddp and when sharded
  outer_opt::MomentumShards shards;   // of it, when sharded: what this replica keeps
  std::vector<float> adam_m, adam_v;  // AdamW's moments; empty but with ddp

  bool shares_adam() const { return !adam_m.empty(); }
  // Steps of a shared AdamW at the round `key`: every committed round is one.
  static std::int64_t adam_step(const RoundKey& key) { return key.round; }
};

OuterState zero_outer_state(const SyncSpec& sync, std::int64_t value_count);

// Of what the outer step keeps beside the anchor: "momentum" in every message. Zero when it is
// sharded: no replica could take the digest of all.
Digest momentum_digest(const OuterState& state);

// The outer step of the round of `commit` with the average that was voted for and the terms that
// the commit carries. Not for `none`, which has no outer step. The learning rate of a shared AdamW
// is that of inner step round - 1: aborted attempts do not move the schedule. `average` is that of
// the fragment, packed; a shared AdamW and delayed Nesterov have no fragments. Sharded, it is the
// step that the owners took; in a group, of all values of what group_input() made.
void take_outer_step(const JobSpec& spec, const CommitRound& commit,
                     std::span<const DecayRange> ranges, const outer_opt::Fragment& fragment,
                     std::span<const float> average, OuterState& state);

// Makes of a pseudo-gradient, in place, what its replica puts into the reduce of its group. Clip
// factors go into it, and so those of the plan become 1, also for a member that sends nothing.
void group_input(const JobSpec& spec, ReplicaId self, const OuterState& state,
                 std::span<float> pseudo_gradient, ReducePlan& plan);

}  // namespace shoal::trainer
