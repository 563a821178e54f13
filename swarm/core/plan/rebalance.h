// When an agent changes its stage. A joiner goes where the pipeline is weakest, and among about
// equal stages to one where nobody of its failure domain is yet; a stage that falls below
// min_replicas takes the slowest agent that another can spare, at once; and every period the
// richest stages give to the poorest, with hysteresis, two confirmations (one when the pipeline is
// badly out of balance), when the agent is expected to stay long enough after its download, and
// never the last copies of a stage's state. Decisions only: a move itself (drain, download,
// verify, activate, at an inner-step boundary) is the driver's.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"
#include "swarm/core/plan/assignment.h"

namespace shoal::swarm {

using shoal::to_string;

struct RebalanceReplica {
  ReplicaId id;
  StageIndex stage = 0;
  double speed = 0;  // FLOP/s times availability
  Bytes memory;      // of its agent
  Duration expected_life = seconds(1800);
  bool in_transit = false;  // moving already: it counts for its new stage and stays
  bool shares = false;      // its device serves other stages, too: it does not move
  bool stays = false;       // nor does this one: it keeps what others need
  std::string domain;       // failure domain; empty: one of its own
  double down = std::numeric_limits<double>::infinity();  // bytes/s that its host receives
  std::vector<StageIndex> left = {};  // the stages that it has moved away from lately
};

struct RebalanceView {
  std::vector<StageNeed> stages;
  std::vector<RebalanceReplica> replicas;
  std::vector<Bytes> state;     // per stage: what a joiner downloads
  std::vector<double> sources;  // per stage: bytes/s that those who hold its state send together
  bool has_trained = true;      // there is a state that a stage must not lose
};

struct RebalanceOptions {
  std::int32_t min_replicas = 1;
  std::int32_t max_replicas = 0;  // per stage, 0: no limit
  // What a stage keeps for speed's sake: with one copy left, one crash costs the job its state.
  std::int32_t copies_min = 2;
  // Moves begin when the weakest falls below this share of the mean. A stage above the weakest has
  // speed that nobody can use, so that a move costs little; pays() and the confirmations keep small
  // gains from moving anybody (docs/simulation.md has what other values give).
  double low_water = 0.99;
  std::int32_t confirmations = 2;
  // Below this share of the mean one look is enough, because waiting for a second one costs more
  // than a needless move. With two stages, one is then four times as fast as the other.
  double urgent_below = 0.4;
  // A gain below this share of what the agent does there moves nobody: it would fill one stage at
  // the cost of another.
  double gain_min = 0.1;
  Duration payback_max = seconds(1800);
  Duration drain = seconds(5);
  double in_transit_share_max = 0.02;  // of all replicas, at least one
};

enum class MoveReason { kBelowMinimum, kBalance };
constexpr auto enumerators_of(Of<MoveReason>) {
  using enum MoveReason;
  return enumerators<MoveReason>({{kBelowMinimum, "below_minimum"}, {kBalance, "balance"}});
}

struct Move {
  ReplicaId replica;
  StageIndex from = 0, to = 0;
  MoveReason reason = MoveReason::kBalance;
  double gain = 0;  // tokens/s of the weakest stage
  bool operator==(const Move&) const = default;
};

enum class JoinReason { kBelowMinimum, kWeakestStage, kNothingFits };
struct JoinDecision {
  JoinReason reason = JoinReason::kNothingFits;
  StageIndex stage = -1;
};

// What a move for balance costs, and what it is worth. Only a stage with speed to spare gives a
// replica away, so the pipeline loses nothing while the replica downloads. The move must gain
// enough, and for at least as long as it takes.
struct Worth {
  double gain = 0;  // tokens/s of the pipeline afterwards
  Bytes download;
  double bytes_per_s = 0;
  Duration away;     // finishing its work, then the download
  Duration payback;  // the gain has made up for the move after this time, counted from its begin
  Duration bound;    // how long its agent is expected to stay, at most payback_max
  bool pays = false;
  bool operator==(const Worth&) const = default;
};

std::vector<double> stage_capacity(const RebalanceView& view);

struct Joiner {
  Bytes memory;
  std::string domain;  // empty: one of its own
};

// A stage below min_replicas first (the one that lacks most), else the smallest capacity; none with
// max_replicas (0: no limit). Among stages that lack as many, or that have at most kEqualCapacity
// of the smallest capacity, one without the joiner's domain.
inline constexpr double kEqualCapacity = 1.05;
JoinDecision joiner_stage(const RebalanceView& view, const Joiner& joiner,
                          std::int32_t min_replicas, std::int32_t max_replicas = 0);

// One move per stage below its minimum, from stages that keep theirs and, of a job that has
// trained, another one that serves; the slowest that fits, one that has not left that stage lately
// first. With every stage at its minimum or
// below, nothing: moving the hole helps nobody.
std::vector<Move> emergency_moves(const RebalanceView& view, std::int32_t min_replicas);

enum class BalanceVerdict { kBalanced, kUnconfirmed, kNoGain, kDoesNotPay, kTransitBudget, kMoves };
constexpr auto enumerators_of(Of<BalanceVerdict>) {
  using enum BalanceVerdict;
  return enumerators<BalanceVerdict>({{kBalanced, "balanced"},
                                      {kUnconfirmed, "unconfirmed"},
                                      {kNoGain, "no_gain"},
                                      {kDoesNotPay, "does_not_pay"},
                                      {kTransitBudget, "transit_budget"},
                                      {kMoves, "moves"}});
}

// The move that was looked at last, whether it was made or not.
struct ConsideredMove {
  Move move;
  Worth worth;
};

struct BalanceDecision {
  BalanceVerdict verdict = BalanceVerdict::kBalanced;
  std::vector<Move> moves;
  std::optional<ConsideredMove> considered;
  double weakest = 0, mean = 0;  // tokens/s, before
  StageIndex weakest_stage = 0;
  std::int32_t held_back = 0;  // replicas that would help it, but are among the last copies
};

class Rebalancer {
 public:
  // `confirmed`: of the steps before, where they must outlive this object.
  explicit Rebalancer(RebalanceOptions options, std::int32_t confirmed = 0)
      : options_(options), confirmed_(confirmed) {}
  // Once per period.
  BalanceDecision step(const RebalanceView& view);
  std::int32_t confirmed() const { return confirmed_; }

 private:
  RebalanceOptions options_;
  std::int32_t confirmed_;
};

}  // namespace shoal::swarm
