// Where a model is cut, and who serves what. `cut_stages` is the min-max dynamic program for a
// given number of stages. `plan_stages` tries every number that is allowed: an even cut that fits
// the memory of most, the assignment of all agents by what they compute and their lines carry, and
// then, for few agents, all single changes of it as long as the forecast grows (plan_search.h):
// agents that only hold the others up are left out, and unequal agents get unequal stages. The best
// forecast wins. A cut holds for the life of a job: afterwards agents move, boundaries do not.
#pragma once

#include <cstdint>
#include <vector>

#include "base/enumerators.h"
#include "base/units.h"
#include "swarm/core/plan/assignment.h"
#include "swarm/core/plan/cost_model.h"
#include "swarm/core/plan/throughput.h"

namespace shoal::swarm {

using shoal::to_string;

// The cut into `stages` contiguous stages with the smallest slowest stage, none of which needs more
// than `memory`; every stage has at least one block, the embedding goes with the first and the head
// with the last. Among equal ones the sum of squares decides, so that blocks that do not divide are
// spread. Empty: none fits.
std::vector<UnitRange> cut_stages(const CostModel& model, std::int32_t stages, Bytes memory);

// The same for stages whose holders are known.
struct StageHolders {
  double speed = 1;  // of all together, FLOP/s
  Bytes memory;      // of the smallest
};
std::vector<UnitRange> cut_stages(const CostModel& model, const std::vector<StageHolders>& stages);

enum class PlanReason {
  kPlanned,
  kNoAgents,
  kMoreStagesThanLayers,
  kStageTooLarge,  // no agent can hold the largest stage of any allowed cut
  kTooFewAgents,   // the cut fits, but not min_replicas times
};
constexpr auto enumerators_of(Of<PlanReason>) {
  using enum PlanReason;
  return enumerators<PlanReason>({{kPlanned, "planned"},
                                  {kNoAgents, "no_agents"},
                                  {kMoreStagesThanLayers, "more_stages_than_layers"},
                                  {kStageTooLarge, "stage_too_large"},
                                  {kTooFewAgents, "too_few_agents"}});
}

struct PlanRequest : Cluster {
  std::int32_t stages = 0;  // 0: choose
  AssignmentOptions assignment;
  std::vector<UnitRange> cut = {};  // of a job that was cut before; empty: choose
};

struct StagePlan {
  PlanReason reason = PlanReason::kNoAgents;
  std::vector<UnitRange> stages;
  std::vector<Bytes> memory;  // per stage
  AssignmentResult assignment;
  Throughput throughput;
  // For a refusal: what one replica needs at least, the largest memory of an agent, agents missing.
  Bytes needed, largest;
  std::int32_t agents_missing = 0;
  bool ok() const { return reason == PlanReason::kPlanned; }
};

StagePlan plan_stages(const CostModel& model, const PlanRequest& request);

}  // namespace shoal::swarm
