// The candidates of a balancing move are the agents of the richest stage; the best one raises the
// smaller of the two stages most, and among equal ones comes from the richest stage. Moves are
// planned one after the other on a copy of the view.
#include "swarm/core/plan/rebalance.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace shoal::swarm {
namespace {

std::vector<std::int32_t> replica_counts(const RebalanceView& view) {
  std::vector<std::int32_t> counts(view.stages.size(), 0);
  for (const RebalanceReplica& replica : view.replicas) ++counts[replica.stage];
  return counts;
}

StageIndex smallest(const std::vector<double>& capacity) {
  return static_cast<StageIndex>(std::min_element(capacity.begin(), capacity.end()) -
                                 capacity.begin());
}

// Another replica of its stage has the state. One that still loads may fail, so it does not count.
bool leaves_a_holder(const RebalanceView& view, const RebalanceReplica& leaving) {
  return !view.has_trained || std::ranges::any_of(view.replicas, [&](const auto& other) {
    return other.stage == leaving.stage && &other != &leaving && !other.in_transit;
  });
}

bool has_left(const RebalanceReplica& replica, StageIndex stage) {
  return std::ranges::count(replica.left, stage) > 0;
}

struct Candidate {
  std::size_t replica = 0;
  double worst = 0;  // the smaller capacity of the two stages afterwards
  bool found = false;
  std::int32_t held_back = 0;
};

Candidate best_candidate(const RebalanceView& view, const std::vector<double>& capacity,
                         const std::vector<std::int32_t>& counts, StageIndex to,
                         const RebalanceOptions& options) {
  Candidate best{0, capacity[to], false};
  const std::int32_t kept = std::max(options.min_replicas, options.copies_min);
  for (std::size_t i = 0; i < view.replicas.size(); ++i) {
    const RebalanceReplica& replica = view.replicas[i];
    const bool fixed = replica.in_transit || replica.shares || replica.stays;
    if (fixed || replica.stage == to || replica.memory < view.stages[to].memory) continue;
    if (has_left(replica, to)) continue;  // or the two stages would exchange it for ever
    const double worst =
        std::min(capacity[replica.stage] - replica.speed / view.stages[replica.stage].work,
                 capacity[to] + replica.speed / view.stages[to].work);
    if (counts[replica.stage] <= kept || !leaves_a_holder(view, replica)) {
      best.held_back += worst > capacity[to];
      continue;
    }
    const bool richer = best.found && worst == best.worst &&
                        capacity[replica.stage] > capacity[view.replicas[best.replica].stage];
    if (worst > best.worst || richer) best = {i, worst, true, best.held_back};
  }
  return best;
}

Worth worth_of(const RebalanceView& view, const RebalanceReplica& replica, StageIndex to,
               double gain, const RebalanceOptions& options) {
  Worth worth{.gain = gain};
  worth.download = view.state[to];
  worth.bytes_per_s = std::min(replica.down, view.sources[to]);
  const auto bytes = static_cast<double>(worth.download.count());
  worth.away = options.drain + seconds_f(bytes / worth.bytes_per_s);
  worth.payback = worth.away * 2;
  worth.bound = std::min(replica.expected_life, options.payback_max);
  const double own = replica.speed / view.stages[to].work;
  worth.pays = gain >= options.gain_min * own && worth.bound >= worth.payback;
  return worth;
}

std::int32_t transit_budget(const RebalanceView& view, double share_max) {
  const auto moving = std::count_if(view.replicas.begin(), view.replicas.end(),
                                    [](const auto& replica) { return replica.in_transit; });
  const double most = std::max(1.0, share_max * static_cast<double>(view.replicas.size()));
  return static_cast<std::int32_t>(most) - static_cast<std::int32_t>(moving);
}

bool domain_is_in(const RebalanceView& view, const std::string& domain, StageIndex stage) {
  return !domain.empty() &&
         std::any_of(view.replicas.begin(), view.replicas.end(), [&](const auto& replica) {
           return replica.stage == stage && replica.domain == domain;
         });
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::vector<double> stage_capacity(const RebalanceView& view) {
  std::vector<double> capacity(view.stages.size(), 0);
  for (const RebalanceReplica& replica : view.replicas) {
    capacity[replica.stage] += replica.speed / view.stages[replica.stage].work;
  }
  return capacity;
}

JoinDecision joiner_stage(const RebalanceView& view, const Joiner& joiner,
                          std::int32_t min_replicas, std::int32_t max_replicas) {
  const std::vector<double> capacity = stage_capacity(view);
  const std::vector<std::int32_t> counts = replica_counts(view);
  const auto lacks = [&](StageIndex s) { return std::max(0, min_replicas - counts[s]); };
  std::vector<StageIndex> open;
  for (StageIndex s = 0; s < static_cast<StageIndex>(view.stages.size()); ++s) {
    const bool full = max_replicas > 0 && counts[s] >= max_replicas;
    if (!full && joiner.memory >= view.stages[s].memory) open.push_back(s);
  }
  if (open.empty()) return {};
  const auto weaker = [&](StageIndex a, StageIndex b) {
    return std::pair(-lacks(a), capacity[a]) < std::pair(-lacks(b), capacity[b]);
  };
  const StageIndex weakest = *std::min_element(open.begin(), open.end(), weaker);
  const double most = lacks(weakest) > 0 ? std::numeric_limits<double>::infinity()
                                         : kEqualCapacity * capacity[weakest];
  std::erase_if(open, [&](StageIndex s) {
    return lacks(s) < lacks(weakest) || capacity[s] > most || domain_is_in(view, joiner.domain, s);
  });
  const StageIndex stage =
      open.empty() ? weakest : *std::min_element(open.begin(), open.end(), weaker);
  const bool lacking = lacks(stage) > 0;
  return {lacking ? JoinReason::kBelowMinimum : JoinReason::kWeakestStage, stage};
}

std::vector<Move> emergency_moves(const RebalanceView& view, std::int32_t min_replicas) {
  std::vector<Move> moves;
  RebalanceView now = view;
  std::vector<std::int32_t> counts = replica_counts(now);
  for (StageIndex to = 0; to < static_cast<StageIndex>(now.stages.size()); ++to) {
    if (counts[to] >= min_replicas) continue;
    RebalanceReplica* best = nullptr;
    for (RebalanceReplica& replica : now.replicas) {
      const bool may = !replica.in_transit && !replica.shares && !replica.stays &&
                       counts[replica.stage] > min_replicas && leaves_a_holder(now, replica) &&
                       replica.memory >= now.stages[to].memory;
      const auto rank = [&](const RebalanceReplica& r) {
        return std::pair(has_left(r, to), r.speed);
      };
      if (may && (best == nullptr || rank(replica) < rank(*best))) best = &replica;
    }
    if (best == nullptr) continue;
    moves.push_back({best->id, best->stage, to, MoveReason::kBelowMinimum, 0});
    --counts[best->stage];
    ++counts[to];
    best->in_transit = true;
  }
  return moves;
}

BalanceDecision Rebalancer::step(const RebalanceView& view) {
  SHOAL_CHECK(!view.stages.empty() && view.state.size() == view.stages.size() &&
              view.sources.size() == view.stages.size());
  RebalanceView now = view;
  std::vector<double> capacity = stage_capacity(now);
  std::vector<std::int32_t> counts = replica_counts(now);
  BalanceDecision decision;
  decision.weakest_stage = smallest(capacity);
  decision.weakest = capacity[decision.weakest_stage];
  decision.mean = mean_of(capacity);
  const auto stop = [&](BalanceVerdict verdict) {
    decision.verdict = decision.moves.empty() ? verdict : BalanceVerdict::kMoves;
    return decision;
  };
  if (decision.weakest >= options_.low_water * decision.mean) {
    confirmed_ = 0;
    return stop(BalanceVerdict::kBalanced);
  }
  const bool urgent = decision.weakest < options_.urgent_below * decision.mean;
  if (++confirmed_ < options_.confirmations && !urgent) return stop(BalanceVerdict::kUnconfirmed);
  std::int32_t budget = transit_budget(now, options_.in_transit_share_max);
  while (capacity[smallest(capacity)] < options_.low_water * decision.mean) {
    if (budget-- <= 0) return stop(BalanceVerdict::kTransitBudget);
    const StageIndex to = smallest(capacity);
    if (options_.max_replicas > 0 && counts[to] >= options_.max_replicas) {
      return stop(BalanceVerdict::kNoGain);
    }
    const Candidate best = best_candidate(now, capacity, counts, to, options_);
    decision.held_back = best.held_back;
    if (!best.found) return stop(BalanceVerdict::kNoGain);
    RebalanceReplica& replica = now.replicas[best.replica];
    const double gain = best.worst - capacity[to];
    const Move move{replica.id, replica.stage, to, MoveReason::kBalance, gain};
    decision.considered = {move, worth_of(now, replica, to, gain, options_)};
    if (!decision.considered->worth.pays) return stop(BalanceVerdict::kDoesNotPay);
    decision.moves.push_back(move);
    capacity[replica.stage] -= replica.speed / now.stages[replica.stage].work;
    capacity[to] += replica.speed / now.stages[to].work;
    --counts[replica.stage];
    ++counts[to];
    replica.in_transit = true;
  }
  return stop(BalanceVerdict::kMoves);
}

}  // namespace shoal::swarm
