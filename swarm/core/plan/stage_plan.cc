// The cut, and the choice of the number of stages. Which memory a stage may need is tried from
// strict to lenient: at first nine tenths of the speed must be able to hold a stage, at last a
// single agent, because fewer larger stages cost fewer hops.
#include "swarm/core/plan/stage_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "swarm/core/plan/plan_search.h"
#include "swarm/core/plan/sharing.h"

namespace shoal::swarm {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kShortSearch = 800, kLongSearch = 16000;  // steps of annealing
constexpr std::size_t kSearchedLong = 3;   // numbers of stages: the best after the short search
constexpr std::size_t kSparesAmong = 256;  // agents: of more, the assignment leaves none out
constexpr double kGoodEnough = 0.97;       // of the best forecast: an even cut, and spare replicas
constexpr double kSpeedThatFits[] = {0.9, 0.75, 0.5, 0.25, 0.0};

struct Best {
  double worst = kNever, squares = kNever;
  std::int32_t from = -1;
  bool operator<(const Best& other) const {
    return worst != other.worst ? worst < other.worst : squares < other.squares;
  }
};

// Block b is unit b + 1; stages take blocks, the ends take embedding and head along.
UnitRange units_of(const CostModel& model, std::int32_t first_block, std::int32_t last_block) {
  return {first_block == 0 ? 0 : first_block + 1,
          last_block == model.blocks() ? model.units() : last_block + 1};
}

Bytes largest_memory(const std::vector<AssignableAgent>& agents) {
  Bytes most;
  for (const AssignableAgent& agent : agents) most = std::max(most, agent.memory);
  return most;
}

// The largest memory that agents with `share` of all the speed have.
Bytes admissible_memory(std::vector<AssignableAgent> agents, double share) {
  std::sort(agents.begin(), agents.end(),
            [](const auto& a, const auto& b) { return a.memory > b.memory; });
  double total = 0, sum = 0;
  for (const AssignableAgent& agent : agents) total += agent.speed;
  for (const AssignableAgent& agent : agents) {
    sum += agent.speed;
    if (sum >= share * total) return agent.memory;
  }
  return agents.back().memory;
}

std::vector<StageNeed> needs_of(const CostModel& model, const std::vector<UnitRange>& stages) {
  std::vector<StageNeed> needs;
  for (const UnitRange range : stages) needs.push_back({model.flops(range), model.memory(range)});
  return needs;
}

// The speed that an agent can bring to bear behind its line: an even share of the line for each
// agent behind it, and stages of the mean work that cross `crossings` boundaries.
std::vector<AssignableAgent> as_their_lines_let(const CostModel& model, const PlanRequest& request,
                                                std::int32_t stages) {
  std::vector<AssignableAgent> agents = request.agents;
  const double crossings = stages > 2 ? 2 : 1;
  const double work = model.flops(model.whole()) / stages;
  for (const SharedLine& line : request.lines) {
    if (line.bytes_per_s <= 0 || stages == 1) continue;
    const double tokens_per_s = line.bytes_per_s / static_cast<double>(line.agents.size()) /
                                (crossings * static_cast<double>(model.boundary_bytes()));
    for (const std::int32_t agent : line.agents) {
      agents[agent].speed = std::min(agents[agent].speed, tokens_per_s * work);
    }
  }
  return agents;
}

// Shares of devices with several stages by what they compute, and the forecast.
void settle(const CostModel& model, const PlanRequest& request, StagePlan& plan) {
  std::vector<double> speeds;
  for (const AssignableAgent& agent : request.agents) speeds.push_back(agent.speed);
  const std::vector<StageNeed> needs = needs_of(model, plan.stages);
  plan.assignment.capacity = level_shares(speeds, needs, plan.assignment.placements);
  plan.assignment.throughput = *std::ranges::min_element(plan.assignment.capacity);
  plan.memory.clear();
  for (const StageNeed& need : needs) plan.memory.push_back(need.memory);
  plan.throughput = Forecaster(model, request).of(plan.stages, plan.assignment.placements);
}

Bytes smallest_need(const CostModel& model, std::int32_t stages) {
  const std::vector<UnitRange> cut =
      cut_stages(model, stages, Bytes(std::numeric_limits<std::int64_t>::max()));
  Bytes most;
  for (const UnitRange range : cut) most = std::max(most, model.memory(range));
  return most;
}

// The cut for one number of stages, with the strictest memory that gives an assignment.
StagePlan plan_for(const CostModel& model, const PlanRequest& request, std::int32_t stages) {
  StagePlan plan;
  plan.reason = PlanReason::kStageTooLarge;
  const std::vector<AssignableAgent> agents = as_their_lines_let(model, request, stages);
  Bytes before(-1);
  for (const double share : kSpeedThatFits) {
    const Bytes memory = admissible_memory(agents, share);
    if (std::exchange(before, memory) == memory) continue;  // the same again
    const std::vector<UnitRange> cut =
        request.cut.empty() ? cut_stages(model, stages, memory) : request.cut;
    if (cut.empty()) continue;
    StagePlan tried;
    tried.stages = cut;
    tried.assignment = assign_agents(agents, needs_of(model, cut), request.assignment);
    if (!tried.assignment.ok()) {
      plan.reason = PlanReason::kTooFewAgents;
      plan.agents_missing = tried.assignment.replicas_missing;
      continue;
    }
    tried.reason = PlanReason::kPlanned;
    settle(model, request, tried);
    if (!plan.ok() || tried.throughput.tokens_per_s > plan.throughput.tokens_per_s) plan = tried;
  }
  if (!plan.ok()) {
    plan.stages =
        request.cut.empty() ? cut_stages(model, stages, largest_memory(agents)) : request.cut;
  }
  plan.needed = smallest_need(model, stages);
  return plan;
}

// The same with those behind one line alone, who reach each other beside it: a search that begins
// with agents on both sides of a slow line seldom comes to leave one side out.
StagePlan plan_behind(const CostModel& model, const PlanRequest& request, const SharedLine& line,
                      std::int32_t stages) {
  PlanRequest among = request;
  among.agents.clear(), among.lines.clear(), among.round_trip_s.clear();
  for (const std::int32_t agent : line.agents) among.agents.push_back(request.agents[agent]);
  StagePlan plan = plan_for(model, among, stages);
  for (Placement& p : plan.assignment.placements) p.agent = line.agents[p.agent];
  if (plan.ok()) settle(model, request, plan);
  return plan;
}

// Agents that the search left out come back as copies of a stage, where they cost little: who is
// spare today takes over tomorrow.
void take_in_spares(const CostModel& model, const PlanRequest& request, double least,
                    StagePlan& plan) {
  std::vector<Placement>& placements = plan.assignment.placements;
  for (std::int32_t a = 0; a < static_cast<std::int32_t>(request.agents.size()); ++a) {
    if (std::ranges::find(placements, a, &Placement::agent) != placements.end()) continue;
    Placement best{-1};
    double most = 0;
    for (StageIndex s = 0; s < static_cast<StageIndex>(plan.stages.size()); ++s) {
      const auto there = std::ranges::count(placements, s, &Placement::stage);
      if (plan.memory[s] > request.agents[a].memory) continue;
      if (request.assignment.max_replicas > 0 && there >= request.assignment.max_replicas) continue;
      placements.push_back({a, s, 1});
      const double with = Forecaster(model, request).of(plan.stages, placements).tokens_per_s;
      placements.pop_back();
      if (with > most) best = {a, s, 1}, most = with;
    }
    if (best.agent >= 0 && most >= least) placements.push_back(best);
  }
  std::ranges::sort(placements, [](const Placement& a, const Placement& b) {
    return a.stage != b.stage ? a.stage < b.stage : a.agent < b.agent;
  });
  settle(model, request, plan);
}

// Plans first, the best forecast first; then who says more. Equal ones are in the order of stages.
bool is_better(const StagePlan& a, const StagePlan& b) {
  if (a.ok() != b.ok()) return a.ok();
  if (a.ok()) return a.throughput.tokens_per_s > b.throughput.tokens_per_s;
  return a.reason == PlanReason::kTooFewAgents && b.reason != PlanReason::kTooFewAgents;
}

}  // namespace

std::vector<UnitRange> cut_stages(const CostModel& model, std::int32_t stages, Bytes memory) {
  if (stages < 1) return {};
  return cut_stages(model,
                    std::vector<StageHolders>(static_cast<std::size_t>(stages), {1, memory}));
}

std::vector<UnitRange> cut_stages(const CostModel& model,
                                  const std::vector<StageHolders>& holders) {
  const std::int32_t blocks = model.blocks();
  const auto stages = static_cast<std::int32_t>(holders.size());
  if (stages < 1 || stages > blocks) return {};
  std::vector<std::vector<Best>> best(stages + 1, std::vector<Best>(blocks + 1));
  best[0][0] = {0, 0, -1};
  for (std::int32_t s = 1; s <= stages; ++s) {
    const StageHolders& holder = holders[s - 1];
    for (std::int32_t last = s; last <= blocks - (stages - s); ++last) {
      // A longer stage takes longer and needs more, so the first one that is too long ends it.
      Best& found = best[s][last];
      for (std::int32_t first = s == 1 ? 0 : last - 1; first >= s - 1; --first) {
        const UnitRange range = units_of(model, first, last);
        const double time = model.flops(range) / holder.speed;
        if (time > found.worst || model.memory(range) > holder.memory) break;
        const Best& before = best[s - 1][first];
        if (before.worst == kNever) continue;
        const Best tried{std::max(before.worst, time), before.squares + time * time, first};
        if (!(found < tried)) found = tried;
      }
    }
  }
  std::vector<UnitRange> cut;
  if (best[stages][blocks].worst == kNever) return cut;
  for (std::int32_t s = stages, last = blocks; s > 0; last = best[s][last].from, --s) {
    cut.push_back(units_of(model, best[s][last].from, last));
  }
  std::reverse(cut.begin(), cut.end());
  return cut;
}

StagePlan plan_stages(const CostModel& model, const PlanRequest& request) {
  StagePlan best;
  if (request.agents.empty()) return best;
  best.largest = largest_memory(request.agents);
  const std::int32_t given =
      request.cut.empty() ? request.stages : static_cast<std::int32_t>(request.cut.size());
  const std::int32_t lo = given > 0 ? given : 1;
  const std::int32_t most =
      std::min<std::int32_t>(model.blocks(), static_cast<std::int32_t>(request.agents.size()));
  const std::int32_t hi = given > 0 ? given : most;
  if (lo > model.blocks()) {
    best.reason = PlanReason::kMoreStagesThanLayers;
    return best;
  }
  best.reason = PlanReason::kStageTooLarge;
  best.needed = smallest_need(model, hi);
  std::vector<StagePlan> plans, even;
  const auto search_from = [&](StagePlan plan) {
    if (improve_plan(model, request, kShortSearch, plan)) settle(model, request, plan);
    plan.largest = best.largest;
    plans.push_back(std::move(plan));
  };
  for (std::int32_t stages = lo; stages <= hi; ++stages) {
    even.push_back(plan_for(model, request, stages));
    even.back().largest = best.largest;
    search_from(even.back());
    for (const SharedLine& line : request.lines) {
      const auto behind = static_cast<std::int32_t>(line.agents.size());
      if (behind < 2 || behind < stages || behind == most) continue;
      search_from(plan_behind(model, request, line, stages));
    }
  }
  std::ranges::stable_sort(plans, is_better);
  // Where nothing fits so far, what is tried is not even a plan, so that all of it costs little.
  const std::size_t searched = plans.front().ok() ? kSearchedLong : plans.size();
  for (std::size_t i = 0; i < std::min(plans.size(), searched); ++i) {
    if (improve_plan(model, request, kLongSearch, plans[i])) settle(model, request, plans[i]);
  }
  best = *std::ranges::min_element(plans, is_better);
  if (!best.ok()) {
    best.stages.clear();
    return best;
  }
  // An even cut stays good when agents come and go, so little is not worth another one.
  const double least = kGoodEnough * best.throughput.tokens_per_s;
  const StagePlan& simple = *std::ranges::min_element(even, is_better);
  if (simple.ok() && simple.throughput.tokens_per_s >= least) best = simple;
  if (request.agents.size() <= kSparesAmong) take_in_spares(model, request, least, best);
  return best;
}

}  // namespace shoal::swarm
