// Where a model is cut. With several replicas per stage the cut does not bound the throughput, the
// assignment does; the cut has to fit memory and keep stages alike, so that one slow link or one
// rounding does not bind. `cut_stages` is the min-max dynamic program for a given number of stages,
// and `plan_stages` tries every number that is allowed with the real assignment and takes the best.
// A cut holds for the life of a job: afterwards agents move, boundaries do not.
#pragma once

#include <cstdint>
#include <vector>

#include "base/enumerators.h"
#include "base/units.h"
#include "swarm/core/plan/assignment.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::swarm {

using shoal::to_string;

struct CutLimits {
  Bytes memory;            // of the smallest agent that is to hold a stage
  double flops_per_s = 1;  // of one replica
  double bytes_per_s = 0;  // each direction of its link; 0: unlimited
};

// Seconds per token of a stage on one replica: the slowest of compute, receiving and sending.
double stage_seconds(const CostModel& model, UnitRange range, const CutLimits& limits);

// The cut into `stages` contiguous stages with the smallest slowest stage; every stage has at least
// one block, the embedding goes with the first and the head with the last. Among equal ones the
// sum of squares decides, so that blocks that do not divide are spread. Empty: none fits.
std::vector<UnitRange> cut_stages(const CostModel& model, std::int32_t stages,
                                  const CutLimits& limits);

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

struct PlanRequest {
  std::vector<AssignableAgent> agents;
  double bytes_per_s = 0;   // a typical agent's slower direction; 0: not known, does not bind
  double round_trip_s = 0;  // between typical agents
  std::int32_t stages = 0;  // 0: choose
  std::int64_t microbatches_per_router = 16;  // and step; a router is a replica of stage 0
  bool equal_steps = true;                    // of one_stage_tokens_per_s()
  AssignmentOptions assignment;
};

struct StagePlan {
  PlanReason reason = PlanReason::kNoAgents;
  std::vector<UnitRange> stages;
  std::vector<Bytes> memory;  // per stage
  AssignmentResult assignment;
  double tokens_per_s = 0;  // predicted: cover, filling and draining, links
  double bubble = 0;        // share of a step lost to filling and draining
  double network = 1;       // at most 1: what the links let through
  // For a refusal: what one replica needs at least, the largest memory of an agent, agents missing.
  Bytes needed, largest;
  std::int32_t agents_missing = 0;
  bool ok() const { return reason == PlanReason::kPlanned; }
};

// What replicas of the whole model, of these speeds (FLOP/s), train together. With `equal_steps`
// all do the same number of steps in a round, so that each is worth as much as the slowest; else
// each goes at its own pace (sync.balance = speed, rounds by time, sync.algorithm = async).
double one_stage_tokens_per_s(const CostModel& model, const std::vector<double>& speeds,
                              bool equal_steps);

StagePlan plan_stages(const CostModel& model, const PlanRequest& request);

}  // namespace shoal::swarm
