// The local search behind plan_stages(): from a plan to a better one, change by change.
#pragma once

#include "swarm/core/plan/stage_plan.h"

namespace shoal::swarm {

// Above this number of agents, one more or less decides little, and the assignment is kept.
inline constexpr std::size_t kSearchedMax = 32;

// An agent goes to another stage, is left out or taken in; two exchange their stages; a boundary
// moves by a block: at first single changes as long as the forecast grows, then simulated annealing
// where the plan is still far from the bound of all speed over all work. Agents that hold several
// stages stay as they are. Memory, min_replicas and max_replicas hold, and no more stages than
// before are in one failure domain. A plan that lacks replicas (its stages and placements so far
// are the beginning) is completed where that is possible. Equal input gives an equal result. True:
// `plan` is a better plan now.
bool improve_plan(const CostModel& model, const PlanRequest& request, int annealing_steps,
                  StagePlan& plan);

}  // namespace shoal::swarm
