// How a job is placed and why, for people: what is expected of its present placement, the move that
// was considered last, and whether the job would be faster if it were placed anew. Kept in memory
// only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"
#include "coordinator/core/decisions/placement.h"
#include "swarm/core/plan/rebalance.h"

namespace shoal::coordinator {

// A move for balance, whether it was made or not.
struct MoveReport {
  Instant at;
  ReplicaId replica;
  AgentId agent;
  StageIndex from = 0, to = 0;
  swarm::Worth worth;
  swarm::BalanceVerdict verdict = swarm::BalanceVerdict::kBalanced;  // kMoves: it was made
  std::string reason;                                                // two sentences at most
};

// The forecast of the present placement, and that of the plan that would be made now: with the cut
// that the job has, or with swarm.recut with another one that is worth it. Both by the same speeds
// and lines.
struct PlanComparison {
  Instant at;
  double present = 0, best = 0;  // tokens/s
};

struct PlacementReport {
  JobId job;
  Instant at;
  Forecast forecast;  // of the present placement
  std::vector<LeftOut> left_out;
  std::vector<LoadedDevice> loaded;  // of the free devices
  // The newest look at the balance of the stages; none before the first.
  struct Look {
    Instant at;
    swarm::BalanceVerdict verdict = swarm::BalanceVerdict::kBalanced;
    StageIndex weakest_stage = 0;
    double weakest = 0, mean = 0;  // tokens/s
    std::string reason;            // why no move was considered; empty: one was, or none is needed
  };
  std::optional<Look> look;
  std::optional<MoveReport> move;
  std::optional<PlanComparison> plan;
};

}  // namespace shoal::coordinator
