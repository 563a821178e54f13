// The one forecast of what placed replicas train together: fixed numbers of stages, `auto`, the
// search for a plan and the decision about a newcomer all compare by it. It counts what devices
// compute, what their lines let through, filling and draining of the pipeline in each step, and the
// averaging after each round. docs/swarm.md has a worked example.
#pragma once

#include <cstdint>
#include <vector>

#include "swarm/core/plan/assignment.h"
#include "swarm/core/plan/cost_model.h"
#include "swarm/core/plan/lines.h"

namespace shoal::swarm {

// The average after each round. It travels over the same lines, after the steps or, in part, behind
// them.
struct Averaging {
  double bytes_per_value = 0;  // 0: nothing is averaged
  double steps = 1;            // inner steps of a round
  double steps_behind = 0;     // of them, those that train while the average travels
  double share = 1;            // of the values that a round averages (fragments)
};

// The agents that may be used, and what the job makes of them.
struct Cluster {
  std::vector<AssignableAgent> agents;
  std::vector<SharedLine> lines;     // who is behind none has a line that never binds
  std::vector<double> round_trip_s;  // by agent, to the others; an agent beyond the list: 0
  std::int64_t microbatches_per_router = 16;  // and step; a router is a replica of stage 0
  bool equal_steps = true;                    // of one_stage_tokens_per_s()
  Averaging averaging;
};

struct Throughput {
  double tokens_per_s = 0;           // committed, over whole rounds
  double training_tokens_per_s = 0;  // while steps are trained
  double bubble = 0;                 // share of a step lost to filling and draining
  double network = 1;                // at most 1: what lines let through of what devices compute
  double average_s = 0;              // that a round waits for its average
  std::int32_t full_line = -1;       // of `lines`: the one that binds; -1: devices do
  std::vector<double> rates;         // by placement, tokens/s while it trains
};

// What replicas of the whole model, of these speeds (FLOP/s), train together. With `equal_steps`
// all do the same number of steps in a round, so that each is worth as much as the slowest; else
// each goes at its own pace (sync.balance = speed, rounds by time, sync.algorithm = async).
double one_stage_tokens_per_s(const CostModel& model, const std::vector<double>& speeds,
                              bool equal_steps);

// The forecast of one model on one cluster, for one plan after the other. Both must outlive it.
class Forecaster {
 public:
  Forecaster(const CostModel& model, const Cluster& cluster)
      : model_(model), cluster_(cluster), lines_(cluster.agents.size(), cluster.lines) {}

  // Every stage must have a placement.
  Throughput of(const std::vector<UnitRange>& stages,
                const std::vector<Placement>& placements) const;

  // What of() cannot exceed for a pipeline whose weakest stage computes so much, tokens/s: lines
  // that carry everything at once, and averages that nobody waits for. Costs nothing.
  double bound(double weakest_tokens_per_s, StageIndex stages) const;

 private:
  Throughput of_one_stage(const std::vector<Placement>& placements) const;
  Throughput of_a_pipeline(const std::vector<UnitRange>& stages,
                           const std::vector<Placement>& placements) const;
  double hops_s(StageIndex stages, const std::vector<Placement>& placements,
                const std::vector<double>& rates) const;
  double average_s(const std::vector<UnitRange>& stages,
                   const std::vector<Placement>& placements) const;

  const CostModel& model_;
  const Cluster& cluster_;
  LineMap lines_;
};

}  // namespace shoal::swarm
