#include "swarm/core/plan/plan_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/prng.h"
#include "swarm/core/plan/sharing.h"

namespace shoal::swarm {
namespace {

constexpr double kHeat = 0.2;  // of the forecast, that a step may lose at the beginning
constexpr double kFurtherChange = 0.3, kCutAnew = 0.1;  // chances
constexpr std::int32_t kBlocksMax = 4;                  // that a boundary moves by, at a time
constexpr int kImprovementsMax = 64;
constexpr double kGain = 1e-3;  // relative: a smaller one changes nothing
constexpr double kAnyScore = -1e9;
constexpr double kNearBound = 0.98;  // of what no plan can exceed: the search ends

constexpr StageIndex kUnused = -1, kShared = -2;

struct Candidate {
  std::vector<UnitRange> stages;
  std::vector<StageIndex> stage_of;  // by agent: its stage, kUnused, or kShared: it has several
};

struct Score {
  double tokens_per_s = 0;  // below 0: so many stages lack replicas
  double slack = 0;  // minus the mean time of a token over all stages, times tokens_per_s: decides
                     // where the forecast is equal, because two stages may be equally weak
  bool is_plan() const { return tokens_per_s > 0; }
  bool beats(const Score& other) const {
    if (!is_plan() || !other.is_plan()) return tokens_per_s > other.tokens_per_s;
    if (tokens_per_s > other.tokens_per_s * (1 + kGain)) return true;
    return tokens_per_s >= other.tokens_per_s * (1 - kGain / 10) && slack > other.slack + kGain;
  }
};

class PlanSearch {
 public:
  PlanSearch(const CostModel& model, const PlanRequest& request, const StagePlan& plan)
      : model_(model), request_(request), forecaster_(model, request), prng_(plan.stages.size()) {
    best_.stages = plan.stages;
    best_.stage_of.assign(request.agents.size(), kUnused);
    for (const Placement& p : plan.assignment.placements) {
      StageIndex& stage = best_.stage_of[p.agent];
      stage = stage == kUnused ? p.stage : kShared;
    }
    for (const Placement& p : plan.assignment.placements) {
      if (best_.stage_of[p.agent] == kShared) shared_.push_back(p);
    }
    domains_ = plan.ok() ? stages_in_one_domain(best_) : static_cast<std::int32_t>(stages());
    for (const AssignableAgent& agent : request.agents) speeds_.push_back(agent.speed);
    const auto units = static_cast<std::size_t>(model.units());
    memory_.assign(units * units, Bytes(-1));
    score_ = score(best_);
  }

  // False: no plan was found that is better than at first.
  bool run(int annealing_steps) {
    const Score before = score_;
    while_better();
    if (!is_near_bound()) {
      anneal(best_, annealing_steps / 2);
      while_better();
      anneal(anything(), annealing_steps / 2);
      while_better();
    }
    return score_.is_plan() && score_.beats(before);
  }

  const std::vector<UnitRange>& cut() const { return best_.stages; }
  std::vector<Placement> placements() const { return placements_of(best_); }

 private:
  StageIndex stages() const { return static_cast<StageIndex>(best_.stages.size()); }

  bool is_cut() const { return !request_.cut.empty(); }  // boundaries stay

  bool is_near_bound() const {
    const double speed = std::accumulate(speeds_.begin(), speeds_.end(), 0.0);
    return score_.tokens_per_s >= kNearBound * speed / model_.flops(model_.whole());
  }

  void while_better() {
    for (int step = 0; step < kImprovementsMax && improve(); ++step) {
    }
  }

  // Takes every single change that is better as it comes; false: none is.
  bool improve() {
    const Score before = score_;
    const auto agents = static_cast<std::int32_t>(best_.stage_of.size());
    for (std::int32_t a = 0; a < agents; ++a) {
      for (StageIndex to = kUnused; to < stages(); ++to) {
        consider(of_those_that_fit(with_stage(best_, a, to)));
      }
      for (std::int32_t b = a + 1; b < agents; ++b) {
        consider(of_those_that_fit(with_exchange(best_, a, b)));
        consider(of_those_that_fit(cut_anew(with_exchange(best_, a, b))));
      }
    }
    for (StageIndex s = 0; s + 1 < stages() && !is_cut(); ++s) {
      for (const std::int32_t by : {-1, 1})
        consider(of_those_that_fit(with_boundary(best_, s, by)));
    }
    return score_.beats(before);
  }

  void consider(std::optional<Candidate> changed) {
    if (!changed) return;
    const std::optional<Score> score =
        score_above(score_.tokens_per_s * (1 - kGain / 10), *changed);
    if (!score || !score->beats(score_)) return;
    best_ = std::move(*changed);
    score_ = *score;
  }

  // Simulated annealing (Kirkpatrick et al. 1983), which leaves plans that no single change
  // improves.
  void anneal(Candidate now, int steps) {
    Score now_score = score(now);
    for (int step = 0; step < steps; ++step) {
      std::optional<Candidate> changed = any_change(now);
      // Exchanged agents may fit only once the boundaries have moved, too.
      while (changed && prng_.chance(kFurtherChange)) changed = any_change(*changed);
      if (prng_.chance(kCutAnew)) changed = cut_anew(std::move(changed));
      changed = if_allowed(std::move(changed));
      if (!changed) continue;
      const double least = least_accepted(now_score, 1 - static_cast<double>(step) / steps);
      const std::optional<Score> score = score_above(least, *changed);
      if (!score || score->tokens_per_s < least) continue;
      now = *std::move(changed), now_score = *score;
      if (now_score.beats(score_)) best_ = now, score_ = now_score;
    }
  }

  // Agents anywhere, so that the search sees other valleys than that of the first plan.
  Candidate anything() {
    Candidate candidate = best_;
    for (StageIndex& stage : candidate.stage_of) {
      if (stage != kShared) stage = static_cast<StageIndex>(prng_.below(candidate.stages.size()));
    }
    const std::optional<Candidate> fitting = of_those_that_fit(cut_anew(candidate));
    return fitting ? *fitting : best_;
  }

  // The forecast that is accepted after `now`: one that is worse by the share x with the
  // probability exp(-x / heat). Drawn before the forecast is made, so that a bound of it can be
  // refused.
  double least_accepted(const Score& now, double left) {
    if (!now.is_plan()) return prng_.chance(0.1) ? kAnyScore : now.tokens_per_s;
    const double loss = -std::log(1 - prng_.unit()) * (kHeat * left + 1e-6);
    return now.tokens_per_s * std::max(1e-9, 1 - loss);
  }

  std::optional<Candidate> any_change(const Candidate& from) {
    const auto any = [&](std::size_t count) {
      return static_cast<std::int32_t>(prng_.below(static_cast<std::uint64_t>(count)));
    };
    switch (prng_.below(is_cut() ? 2 : 3)) {
      case 0:
        return with_stage(from, any(from.stage_of.size()), any(from.stages.size() + 1) - 1);
      case 1:
        return with_exchange(from, any(from.stage_of.size()), any(from.stage_of.size()));
      default:
        return with_boundary(from, any(from.stages.size() - 1),
                             (prng_.chance(0.5) ? 1 : -1) * (1 + any(kBlocksMax)));
    }
  }

  // ---- changes; none where nothing changes

  std::optional<Candidate> with_stage(Candidate changed, std::int32_t a, StageIndex to) const {
    StageIndex& stage = changed.stage_of[a];
    if (stage == kShared || stage == to) return std::nullopt;
    stage = to;
    return changed;
  }

  std::optional<Candidate> with_exchange(Candidate changed, std::int32_t a, std::int32_t b) const {
    StageIndex &x = changed.stage_of[a], &y = changed.stage_of[b];
    if (x == kShared || y == kShared || x == y) return std::nullopt;
    std::swap(x, y);
    return changed;
  }

  // The boundary behind stage `s` moves by a block. The embedding and the head are no blocks.
  std::optional<Candidate> with_boundary(Candidate changed, StageIndex s, std::int32_t by) const {
    UnitRange &left = changed.stages[s], &right = changed.stages[s + 1];
    left.last += by;
    right.first += by;
    const auto blocks = [&](UnitRange range) {
      return std::min(range.last, model_.units() - 1) - std::max(range.first, 1);
    };
    if (blocks(left) < 1 || blocks(right) < 1) return std::nullopt;
    return changed;
  }

  // The boundaries that suit those who hold the stages.
  std::optional<Candidate> cut_anew(std::optional<Candidate> changed) const {
    if (!changed || is_cut()) return changed;
    std::vector<StageHolders> holders(changed->stages.size(), {0, Bytes(-1)});
    const auto hold = [&](StageIndex stage, double speed, Bytes memory) {
      StageHolders& holder = holders[stage];
      holder.memory = holder.speed > 0 ? std::min(holder.memory, memory) : memory;
      holder.speed += speed;
    };
    for (std::size_t a = 0; a < changed->stage_of.size(); ++a) {
      if (changed->stage_of[a] < 0) continue;
      hold(changed->stage_of[a], speeds_[a], request_.agents[a].memory);
    }
    for (const Placement& p : shared_) {
      const auto parts = std::ranges::count(shared_, p.agent, &Placement::agent);
      hold(p.stage, p.share * speeds_[p.agent], Bytes(request_.agents[p.agent].memory.n / parts));
    }
    changed->stages = cut_stages(model_, holders);
    if (changed->stages.empty()) return std::nullopt;
    return changed;
  }

  bool fits(const Candidate& candidate, std::size_t agent) const {
    const StageIndex stage = candidate.stage_of[agent];
    return stage < 0 || memory_of(candidate.stages[stage]) <= request_.agents[agent].memory;
  }

  // An agent that does not fit into its new stage is left out.
  std::optional<Candidate> of_those_that_fit(std::optional<Candidate> changed) const {
    for (std::size_t a = 0; changed && a < changed->stage_of.size(); ++a) {
      if (!fits(*changed, a)) changed->stage_of[a] = kUnused;
    }
    return if_allowed(std::move(changed));
  }

  std::optional<Candidate> if_allowed(std::optional<Candidate> changed) const {
    if (!changed) return std::nullopt;
    Candidate& candidate = *changed;
    for (std::size_t a = 0; a < candidate.stage_of.size(); ++a) {
      if (!fits(candidate, a)) return std::nullopt;
    }
    std::vector<Bytes> held(request_.agents.size());
    for (const Placement& p : shared_) {
      held[p.agent] += memory_of(candidate.stages[p.stage]);
      if (held[p.agent] > request_.agents[p.agent].memory) return std::nullopt;
    }
    const std::int32_t most = request_.assignment.max_replicas;
    if (most > 0 && std::ranges::max(counts(candidate)) > most) return std::nullopt;
    if (stages_in_one_domain(candidate) > domains_) return std::nullopt;
    return changed;
  }

  // ---- what a candidate is

  // The planner asks for every range again and again.
  Bytes memory_of(UnitRange range) const {
    const auto units = static_cast<std::size_t>(model_.units());
    Bytes& known = memory_[static_cast<std::size_t>(range.first) * units +
                           static_cast<std::size_t>(range.last) - 1];
    if (known < Bytes()) known = model_.memory(range);
    return known;
  }

  std::vector<std::int32_t> counts(const Candidate& candidate) const {
    std::vector<std::int32_t> counts(candidate.stages.size(), 0);
    for (const StageIndex stage : candidate.stage_of) {
      if (stage >= 0) ++counts[stage];
    }
    for (const Placement& p : shared_) ++counts[p.stage];
    return counts;
  }

  std::int32_t stages_in_one_domain(const Candidate& candidate) const {
    std::vector<std::int32_t> count(candidate.stages.size(), 0);
    std::vector<const std::string*> domain(candidate.stages.size(), nullptr);
    std::vector<bool> mixed(candidate.stages.size(), false);
    for (std::size_t a = 0; a < candidate.stage_of.size(); ++a) {
      const StageIndex stage = candidate.stage_of[a];
      if (stage < 0) continue;
      ++count[stage];
      const std::string& own = request_.agents[a].domain;
      if (domain[stage] == nullptr) domain[stage] = &own;
      if (own.empty() || own != *domain[stage]) mixed[stage] = true;
    }
    std::int32_t in_one = 0;
    for (std::size_t s = 0; s < count.size(); ++s) in_one += count[s] > 1 && !mixed[s];
    return in_one;
  }

  std::vector<Placement> placements_of(const Candidate& candidate) const {
    std::vector<Placement> placements = shared_;
    for (std::size_t a = 0; a < candidate.stage_of.size(); ++a) {
      if (candidate.stage_of[a] < 0) continue;
      placements.push_back({static_cast<std::int32_t>(a), candidate.stage_of[a], 1});
    }
    std::sort(placements.begin(), placements.end(), [](const Placement& a, const Placement& b) {
      return a.stage != b.stage ? a.stage < b.stage : a.agent < b.agent;
    });
    return placements;
  }

  Score score(const Candidate& candidate) const { return *score_above(kAnyScore, candidate); }

  // None: below `least`, because what its devices compute alone is.
  std::optional<Score> score_above(double least, const Candidate& candidate) const {
    Score score;
    for (const std::int32_t count : counts(candidate)) {
      score.tokens_per_s -= std::max(0, std::max(1, request_.assignment.min_replicas) - count);
    }
    if (score.tokens_per_s < 0) return score;
    std::vector<Placement> placements = placements_of(candidate);
    std::vector<double> capacity(candidate.stages.size(), 0);
    if (!shared_.empty()) {
      std::vector<StageNeed> needs;
      for (const UnitRange range : candidate.stages)
        needs.push_back({model_.flops(range), Bytes()});
      capacity = level_shares(speeds_, needs, placements);
    } else {
      for (const Placement& p : placements) {
        capacity[p.stage] += speeds_[p.agent] / model_.flops(candidate.stages[p.stage]);
      }
    }
    if (forecaster_.bound(*std::ranges::min_element(capacity), stages()) < least)
      return std::nullopt;
    score.tokens_per_s = forecaster_.of(candidate.stages, placements).tokens_per_s;
    for (const double each : capacity) score.slack -= score.tokens_per_s / each;
    return score;
  }

  const CostModel& model_;
  const PlanRequest& request_;
  Forecaster forecaster_;
  Prng prng_;
  std::vector<Placement> shared_;  // of agents that hold several stages
  std::vector<double> speeds_;
  mutable std::vector<Bytes> memory_;  // by first and last unit; negative: not asked for yet
  std::int32_t domains_ = 0;
  Candidate best_;
  Score score_;
};

}  // namespace

bool improve_plan(const CostModel& model, const PlanRequest& request, int annealing_steps,
                  StagePlan& plan) {
  if (request.agents.size() > kSearchedMax || plan.stages.size() < 2) return false;
  PlanSearch search(model, request, plan);
  if (!search.run(annealing_steps)) return false;
  plan.stages = search.cut();
  plan.assignment.placements = search.placements();
  plan.assignment.reason = AssignmentReason::kPlaced;
  plan.reason = PlanReason::kPlanned;
  return true;
}

}  // namespace shoal::swarm
