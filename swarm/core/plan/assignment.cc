// The covering in four passes over one working state: longest-first, the replicas that min_replicas
// still lacks, moves and swaps that raise the weakest stage, failure domains. Agents that were
// split over stages stay where they are in the later passes: their shares already level the stages.
// It runs with whole agents first, and again with agents that may be split where that can win.
#include "swarm/core/plan/assignment.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "swarm/core/plan/sharing.h"

namespace shoal::swarm {
namespace {

constexpr double kGain = 1e-9;          // relative; below it an improvement is rounding
constexpr double kGoodEnough = 0.9995;  // of the bound: further search does not pay
constexpr std::int32_t kDomainSwapsPerStage = 2;
constexpr double kSharingGain = 1.25;  // throughput over that of whole agents
constexpr double kShareMin = 0.05;     // a smaller part of an agent is not worth a process

struct Change {
  std::int32_t agent = -1, other = -1;  // other: its counterpart in a swap, from the weakest stage
  double worst = 0;                     // the smaller capacity of the two stages afterwards
};

class Covering {
 public:
  Covering(const std::vector<AssignableAgent>& agents, const std::vector<StageNeed>& stages,
           const AssignmentOptions& options)
      : agents_(agents),
        stages_(stages),
        options_(options),
        stage_of_(agents.size(), -1),
        free_(agents.size()),
        held_(agents.size()),
        members_(stages.size()),
        capacity_(stages.size(), 0),
        count_(stages.size(), 0) {
    for (std::size_t i = 0; i < agents.size(); ++i) free_[i] = agents[i].memory;
    for (const AssignableAgent& agent : agents) speed_ += agent.speed;
    for (const StageNeed& stage : stages) work_ += stage.work;
  }

  AssignmentResult run() {
    longest_first();
    AssignmentResult result;
    result.bound = speed_ / work_;
    if (!fill_minimum(result)) return result;
    improve(result);
    result.stages_in_one_domain = spread_domains();
    collect(result);
    return result;
  }

 private:
  bool fits(std::int32_t agent, StageIndex stage) const {
    return free_[agent] >= stages_[stage].memory;
  }
  bool holds(std::int32_t agent, StageIndex stage) const {
    if (stage_of_[agent] == stage) return true;
    return std::any_of(held_[agent].begin(), held_[agent].end(),
                       [&](const Placement& p) { return p.stage == stage; });
  }

  bool is_full(StageIndex stage) const {
    return options_.max_replicas > 0 && count_[stage] >= options_.max_replicas;
  }

  // Ties go to the stage with fewer replicas.
  StageIndex weakest_fitting(std::int32_t agent) const {
    StageIndex best = -1;
    for (StageIndex s = 0; s < size(); ++s) {
      if (!fits(agent, s) || holds(agent, s) || is_full(s)) continue;
      if (best < 0 || capacity_[s] < capacity_[best] ||
          (capacity_[s] == capacity_[best] && count_[s] < count_[best])) {
        best = s;
      }
    }
    return best;
  }

  void put(std::int32_t agent, StageIndex stage) {
    stage_of_[agent] = stage;
    members_[stage].push_back(agent);
    capacity_[stage] += agents_[agent].speed / stages_[stage].work;
    ++count_[stage];
  }
  void take(std::int32_t agent) {
    const StageIndex stage = stage_of_[agent];
    std::erase(members_[stage], agent);
    capacity_[stage] -= agents_[agent].speed / stages_[stage].work;
    --count_[stage];
    stage_of_[agent] = -1;
  }
  void put_share(std::int32_t agent, StageIndex stage, double share) {
    held_[agent].push_back({agent, stage, share});
    free_[agent] -= stages_[stage].memory;
    capacity_[stage] += share * agents_[agent].speed / stages_[stage].work;
    ++count_[stage];
  }

  void longest_first() {
    std::vector<std::int32_t> order(agents_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return agents_[a].speed > agents_[b].speed;
    });
    for (const std::int32_t agent : order) {
      if (!split(agent)) {
        const StageIndex stage = weakest_fitting(agent);
        if (stage >= 0) put(agent, stage);
      }
    }
  }

  // An agent that alone exceeds what one stage lacks of the bound fills several, weakest first.
  bool split(std::int32_t agent) {
    if (!options_.several_stages_per_agent) return false;
    const double target = speed_ / work_;
    double left = agents_[agent].speed;
    while (left > 0) {
      const StageIndex stage = weakest_fitting(agent);
      if (stage < 0) break;
      const double lack = (target - capacity_[stage]) * stages_[stage].work;
      if (held_[agent].empty() && lack >= left) return false;
      const double given = std::clamp(lack, 0.0, left);
      if (given <= 0) break;
      put_share(agent, stage, given / agents_[agent].speed);
      left -= given;
    }
    if (left > 0 &&
        !held_[agent].empty()) {  // nowhere left to split: the rest stays where it began
      Placement& first = held_[agent].front();
      first.share += left / agents_[agent].speed;
      capacity_[first.stage] += left / stages_[first.stage].work;
    }
    return !held_[agent].empty();
  }

  // The slowest agent that a stage with more than enough replicas can spare for `stage`.
  std::int32_t spare_for(StageIndex stage) const {
    std::int32_t best = -1;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(agents_.size()); ++i) {
      const StageIndex from = stage_of_[i];
      if (from < 0 || from == stage || count_[from] <= options_.min_replicas) continue;
      if (agents_[i].memory < stages_[stage].memory) continue;
      if (best < 0 || agents_[i].speed < agents_[best].speed) best = i;
    }
    return best;
  }

  // The speed that the agent would give to each stage if it held one more.
  double speed_with_one_more(std::int32_t agent) const {
    const std::size_t held = held_[agent].size() + (stage_of_[agent] >= 0 ? 1 : 0);
    return agents_[agent].speed / static_cast<double>(held + 1);
  }

  // The agent that has most to give and the memory takes one stage more and halves what it gave to
  // its widest.
  bool host_one_more(StageIndex stage) {
    if (!options_.several_stages_per_agent) return false;
    std::int32_t best = -1;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(agents_.size()); ++i) {
      if (holds(i, stage)) continue;
      const Bytes left = stage_of_[i] >= 0 ? free_[i] - stages_[stage_of_[i]].memory : free_[i];
      if (left < stages_[stage].memory) continue;
      if (best < 0 || speed_with_one_more(i) > speed_with_one_more(best)) best = i;
    }
    if (best < 0) return false;
    if (stage_of_[best] >= 0) {
      const StageIndex old = stage_of_[best];
      take(best);
      put_share(best, old, 1);
    }
    double given = 1;
    if (!held_[best].empty()) {
      auto widest =
          std::max_element(held_[best].begin(), held_[best].end(),
                           [](const auto& a, const auto& b) { return a.share < b.share; });
      given = widest->share / 2;
      widest->share -= given;
      capacity_[widest->stage] -= given * agents_[best].speed / stages_[widest->stage].work;
    }
    put_share(best, stage, given);
    return true;
  }

  bool fill_minimum(AssignmentResult& result) {
    for (StageIndex s = 0; s < size(); ++s) {
      while (count_[s] < options_.min_replicas) {
        const std::int32_t spare = spare_for(s);
        if (spare >= 0) {
          take(spare);
          put(spare, s);
        } else if (!host_one_more(s)) {
          return refuse(s, result);
        }
      }
    }
    return true;
  }

  bool refuse(StageIndex stage, AssignmentResult& result) const {
    const auto able = std::count_if(agents_.begin(), agents_.end(), [&](const auto& agent) {
      return agent.memory >= stages_[stage].memory;
    });
    result.reason = able < options_.min_replicas ? AssignmentReason::kMemoryTooSmall
                                                 : AssignmentReason::kTooFewAgents;
    result.stage = stage;
    result.replicas_missing = options_.min_replicas - count_[stage];
    return false;
  }

  StageIndex weakest() const {
    return static_cast<StageIndex>(std::min_element(capacity_.begin(), capacity_.end()) -
                                   capacity_.begin());
  }

  double after(std::int32_t agent, double counter_speed, StageIndex low) const {
    const StageIndex from = stage_of_[agent];
    const double difference = agents_[agent].speed - counter_speed;
    return std::min(capacity_[from] - difference / stages_[from].work,
                    capacity_[low] + difference / stages_[low].work);
  }

  void consider(Change change, Change& best) const {
    if (change.worst > best.worst) best = change;
  }

  // The partner of `agent` in the weakest stage, whose members are sorted by speed: the best
  // difference in speed leaves both stages equal, so only its two neighbors can win.
  void consider_swaps(std::int32_t agent, StageIndex low, const std::vector<std::int32_t>& sorted,
                      Change& best) const {
    const StageIndex from = stage_of_[agent];
    const double level =
        (capacity_[from] - capacity_[low]) / (1 / stages_[from].work + 1 / stages_[low].work);
    const double wanted = agents_[agent].speed - level;
    auto at = std::lower_bound(
        sorted.begin(), sorted.end(), wanted,
        [&](std::int32_t other, double speed) { return agents_[other].speed < speed; });
    for (auto it = at == sorted.begin() ? at : at - 1; it != sorted.end() && it <= at; ++it) {
      if (agents_[*it].memory < stages_[from].memory) continue;
      consider({agent, *it, after(agent, agents_[*it].speed, low)}, best);
    }
  }

  Change best_change(StageIndex low) const {
    std::vector<std::int32_t> sorted = members_[low];
    std::sort(sorted.begin(), sorted.end(), [&](std::int32_t a, std::int32_t b) {
      return agents_[a].speed != agents_[b].speed ? agents_[a].speed < agents_[b].speed : a < b;
    });
    Change best{-1, -1, capacity_[low] * (1 + kGain)};
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(agents_.size()); ++i) {
      const StageIndex from = stage_of_[i];
      if (from < 0 || from == low || agents_[i].memory < stages_[low].memory) continue;
      const bool may_move = count_[from] > options_.min_replicas && !is_full(low);
      if (may_move) consider({i, -1, after(i, 0, low)}, best);
      consider_swaps(i, low, sorted, best);
    }
    return best;
  }

  void improve(AssignmentResult& result) {
    const std::size_t rounds_max = 4 * stages_.size() + 16;
    for (std::size_t round = 0; round < rounds_max; ++round) {
      const StageIndex low = weakest();
      if (capacity_[low] >= kGoodEnough * speed_ / work_) return;
      const Change change = best_change(low);
      if (change.agent < 0) return;
      apply(change, low);
      ++(change.other < 0 ? result.moves : result.swaps);
    }
  }

  void apply(const Change& change, StageIndex low) {
    const StageIndex from = stage_of_[change.agent];
    take(change.agent);
    put(change.agent, low);
    if (change.other < 0) return;
    take(change.other);
    put(change.other, from);
  }

  bool in_one_domain(StageIndex stage) const {
    if (count_[stage] < 2 || static_cast<std::int32_t>(members_[stage].size()) < count_[stage]) {
      return false;
    }
    const std::string& domain = agents_[members_[stage].front()].domain;
    return !domain.empty() && std::all_of(members_[stage].begin(), members_[stage].end(),
                                          [&](auto i) { return agents_[i].domain == domain; });
  }

  // Swaps one member against an agent of another domain; the one that keeps the weakest stage best.
  bool spread(StageIndex stage) {
    Change best{-1, -1, -1};
    const std::int32_t mine =
        *std::min_element(members_[stage].begin(), members_[stage].end(),
                          [&](auto a, auto b) { return agents_[a].speed < agents_[b].speed; });
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(agents_.size()); ++i) {
      const StageIndex from = stage_of_[i];
      if (from < 0 || from == stage || agents_[i].domain == agents_[mine].domain) continue;
      if (agents_[i].memory < stages_[stage].memory ||
          agents_[mine].memory < stages_[from].memory) {
        continue;
      }
      if (leaves_alone(from, i, agents_[mine].domain)) continue;
      consider({i, mine, after(i, agents_[mine].speed, stage)}, best);
    }
    if (best.agent >= 0) apply(best, stage);
    return best.agent >= 0;
  }

  // True when exchanging `leaving` for one of `domain` would put all of `stage` in that domain.
  bool leaves_alone(StageIndex stage, std::int32_t leaving, const std::string& domain) const {
    return members_[stage].size() > 1 &&
           std::all_of(members_[stage].begin(), members_[stage].end(),
                       [&](auto i) { return i == leaving || agents_[i].domain == domain; });
  }

  std::int32_t spread_domains() {
    std::int32_t left = 0;
    for (StageIndex s = 0; s < size(); ++s) {
      for (std::int32_t i = 0; i < kDomainSwapsPerStage && in_one_domain(s) && spread(s); ++i) {
      }
      left += in_one_domain(s);
    }
    return left;
  }

  void collect(AssignmentResult& result) const {
    for (StageIndex s = 0; s < size(); ++s) {
      for (const std::int32_t agent : members_[s]) result.placements.push_back({agent, s, 1});
    }
    for (const auto& shares : held_) {
      result.placements.insert(result.placements.end(), shares.begin(), shares.end());
    }
    if (options_.several_stages_per_agent) {
      improve_sharing(agents_, stages_, options_, result.placements);
    }
    std::sort(result.placements.begin(), result.placements.end(), [](auto& a, auto& b) {
      return a.stage != b.stage ? a.stage < b.stage : a.agent < b.agent;
    });
    result.reason = AssignmentReason::kPlaced;
    result.capacity = divide(result.placements);
    result.throughput = *std::min_element(result.capacity.begin(), result.capacity.end());
  }

  // The final shares; a part that is not worth a process goes to the others of its agent.
  std::vector<double> divide(std::vector<Placement>& placements) const {
    std::vector<double> speeds;
    for (const AssignableAgent& agent : agents_) speeds.push_back(agent.speed);
    std::vector<double> capacity = level_shares(speeds, stages_, placements);
    std::vector<std::int32_t> count(stages_.size(), 0);
    for (const Placement& p : placements) ++count[p.stage];
    const std::size_t before = placements.size();
    std::erase_if(placements, [&](const Placement& p) {
      const bool spare = p.share < kShareMin && count[p.stage] > options_.min_replicas;
      count[p.stage] -= spare;
      return spare;
    });
    return placements.size() == before ? capacity : level_shares(speeds, stages_, placements);
  }

  StageIndex size() const { return static_cast<StageIndex>(stages_.size()); }

  const std::vector<AssignableAgent>& agents_;
  const std::vector<StageNeed>& stages_;
  const AssignmentOptions& options_;
  std::vector<StageIndex> stage_of_;          // of an agent with one stage; -1: none or several
  std::vector<Bytes> free_;                   // memory left beside the shares
  std::vector<std::vector<Placement>> held_;  // of agents that were split
  std::vector<std::vector<std::int32_t>> members_;
  std::vector<double> capacity_;
  std::vector<std::int32_t> count_;
  double speed_ = 0, work_ = 0;
};

}  // namespace

AssignmentResult assign_agents(const std::vector<AssignableAgent>& agents,
                               const std::vector<StageNeed>& stages,
                               const AssignmentOptions& options) {
  SHOAL_CHECK(!stages.empty());
  for (const StageNeed& stage : stages) SHOAL_CHECK(stage.work > 0);
  if (agents.empty()) return {};
  AssignmentOptions whole_agents = options;
  whole_agents.several_stages_per_agent = false;
  const AssignmentResult whole = Covering(agents, stages, whole_agents).run();
  const bool near_bound = whole.ok() && whole.bound < kSharingGain * whole.throughput;
  if (!options.several_stages_per_agent || near_bound) return whole;
  AssignmentResult shared = Covering(agents, stages, options).run();
  const bool pays = shared.ok() && shared.throughput >= kSharingGain * whole.throughput;
  return pays || !whole.ok() ? shared : whole;
}

}  // namespace shoal::swarm
