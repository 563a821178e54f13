// Agents that hold several stages: how each divides its speed among them. A trainer without work
// leaves the device to the others, and microbatches go where service is quick, so the shares follow
// the demand: they raise the weakest stage as far as they can, then the next one. That is the
// max-min fair division (Megiddo 1974; here by block coordinate descent: each agent in turn fills
// its stages from the weakest up). An agent never holds a stage twice.
#pragma once

#include <vector>

#include "swarm/core/plan/assignment.h"

namespace shoal::swarm {

// Sets `share` of every placement and returns the capacity of each stage, tokens/s. `speeds` by
// Placement::agent.
std::vector<double> level_shares(const std::vector<double>& speeds,
                                 const std::vector<StageNeed>& stages,
                                 std::vector<Placement>& placements);

// Lets agents take one stage more, change one of theirs, or exchange two, while that raises the
// weakest stage; keeps min_replicas, max_replicas and memory. The best of all such changes each
// time: for few agents, where a stage more or less decides (nothing is done above 32).
void improve_sharing(const std::vector<AssignableAgent>& agents,
                     const std::vector<StageNeed>& stages, const AssignmentOptions& options,
                     std::vector<Placement>& placements);

}  // namespace shoal::swarm
