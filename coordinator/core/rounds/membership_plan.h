// The membership plan of an attempt: who takes part, over which lines, and what follows from that,
// the topology, the order of the plan, the parts and the size of the frames. Decided from what the
// state says when the attempt starts; attempts.cc writes it down and tells it.
#pragma once

#include <vector>

#include "coordinator/core/state/state.h"
#include "outer_opt/core/round/topology.h"

namespace shoal::coordinator {

struct MembershipPlan {
  std::vector<ReplicaId> members;              // in the order of the plan, reducers included
  std::vector<outer_opt::LinkedMember> links;  // theirs
  outer_opt::TopologyChoice choice;
  std::int64_t frame_values = kFrameValuesUsual;
  bool entropy_coding = false;
};

// `training` are those that hold the state of the round; reducers of the stage that would get a
// part are added.
MembershipPlan plan_membership(const State& state, Instant now, JobId job, StageIndex stage,
                               std::vector<ReplicaId> training);

// Parts of a plan whose members are those of the membership plan: by their lines, those of reducers
// included; equal ones in a ring, where everybody sends the same, and none in an all-gather.
void cut_parts(ReducePlan& plan, const MembershipPlan& membership);

}  // namespace shoal::coordinator
