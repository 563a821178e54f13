// The cut, and the choice of the number of stages. Which memory a stage may need is tried from
// strict to lenient: at first nine tenths of the speed must be able to hold a stage, at last a
// single agent, because fewer larger stages cost fewer hops.
#include "swarm/core/plan/stage_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace shoal::swarm {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
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

// Filling and draining with latency (one-way l, microbatch time t): (S-1)(1 + 2l/t) slots of m.
double bubble_of(std::int32_t stages, double microbatches_per_replica, double round_trip_s,
                 double microbatch_s) {
  const double slots = (stages - 1) * (1 + round_trip_s / microbatch_s);
  return slots / (microbatches_per_replica + slots);
}

double total_speed(const std::vector<AssignableAgent>& agents) {
  double sum = 0;
  for (const AssignableAgent& agent : agents) sum += agent.speed;
  return sum;
}

void predict(const CostModel& model, const PlanRequest& request, StagePlan& plan) {
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  if (stages == 1) {
    std::vector<double> speeds;
    for (const Placement& placement : plan.assignment.placements) {
      speeds.push_back(request.agents[placement.agent].speed);
    }
    plan.tokens_per_s = one_stage_tokens_per_s(model, speeds, request.equal_steps);
    return;
  }
  const double replicas =
      static_cast<double>(plan.assignment.placements.size()) / static_cast<double>(stages);
  const double per_replica = plan.assignment.throughput / replicas;  // tokens/s
  const auto tokens = static_cast<double>(model.tokens_per_microbatch());
  const auto each = static_cast<double>(request.microbatches_per_router);
  plan.bubble = bubble_of(stages, each, request.round_trip_s, tokens / per_replica);
  if (request.bytes_per_s > 0) {
    const double sides = stages > 2 ? 2 : 1;  // an inner stage sends forward and backward
    const double link = request.bytes_per_s / (sides * static_cast<double>(model.boundary_bytes()));
    plan.network = std::min(1.0, link / per_replica);
  }
  plan.tokens_per_s = plan.assignment.throughput * (1 - plan.bubble) * plan.network;
}

// The cut for one number of stages, with the strictest memory that gives an assignment.
StagePlan plan_for(const CostModel& model, const PlanRequest& request, std::int32_t stages) {
  StagePlan plan;
  plan.reason = PlanReason::kStageTooLarge;
  const double mean_speed =
      total_speed(request.agents) / static_cast<double>(request.agents.size());
  Bytes before(-1);
  for (const double share : kSpeedThatFits) {
    const CutLimits limits{admissible_memory(request.agents, share), mean_speed,
                           request.bytes_per_s};
    if (std::exchange(before, limits.memory) == limits.memory) continue;  // the same again
    const std::vector<UnitRange> cut = cut_stages(model, stages, limits);
    if (cut.empty()) continue;
    StagePlan tried;
    tried.stages = cut;
    for (const UnitRange range : cut) tried.memory.push_back(model.memory(range));
    tried.assignment = assign_agents(request.agents, needs_of(model, cut), request.assignment);
    if (!tried.assignment.ok()) {
      plan.reason = PlanReason::kTooFewAgents;
      plan.agents_missing = tried.assignment.replicas_missing;
      continue;
    }
    tried.reason = PlanReason::kPlanned;
    predict(model, request, tried);
    if (!plan.ok() || tried.tokens_per_s > plan.tokens_per_s) plan = tried;
  }
  return plan;
}

Bytes smallest_need(const CostModel& model, std::int32_t stages) {
  const std::vector<UnitRange> cut =
      cut_stages(model, stages, {Bytes(std::numeric_limits<std::int64_t>::max()), 1, 0});
  Bytes most;
  for (const UnitRange range : cut) most = std::max(most, model.memory(range));
  return most;
}

}  // namespace

double stage_seconds(const CostModel& model, UnitRange range, const CutLimits& limits) {
  const double compute = model.flops(range) / limits.flops_per_s;
  if (limits.bytes_per_s <= 0) return compute;
  const int boundaries = (range.first > 0) + (range.last < model.units());
  const double link = boundaries * static_cast<double>(model.boundary_bytes()) / limits.bytes_per_s;
  return std::max(compute, link);
}

std::vector<UnitRange> cut_stages(const CostModel& model, std::int32_t stages,
                                  const CutLimits& limits) {
  const std::int32_t blocks = model.blocks();
  if (stages < 1 || stages > blocks) return {};
  std::vector<std::vector<Best>> best(stages + 1, std::vector<Best>(blocks + 1));
  best[0][0] = {0, 0, -1};
  for (std::int32_t s = 1; s <= stages; ++s) {
    for (std::int32_t last = s; last <= blocks - (stages - s); ++last) {
      for (std::int32_t first = s - 1; first < last; ++first) {
        const Best& before = best[s - 1][first];
        const UnitRange range = units_of(model, first, last);
        if (before.worst == kNever || model.memory(range) > limits.memory) continue;
        const double cost = stage_seconds(model, range, limits);
        const double flops = model.flops(range) / limits.flops_per_s;
        const Best tried{std::max(before.worst, cost), before.squares + flops * flops, first};
        if (tried < best[s][last]) best[s][last] = tried;
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

double one_stage_tokens_per_s(const CostModel& model, const std::vector<double>& speeds,
                              bool equal_steps) {
  SHOAL_CHECK(!speeds.empty());
  const double flops = equal_steps
                           ? static_cast<double>(speeds.size()) * *std::ranges::min_element(speeds)
                           : std::accumulate(speeds.begin(), speeds.end(), 0.0);
  return flops / model.flops(model.whole());
}

StagePlan plan_stages(const CostModel& model, const PlanRequest& request) {
  StagePlan best;
  if (request.agents.empty()) return best;
  best.largest = largest_memory(request.agents);
  const std::int32_t lo = request.stages > 0 ? request.stages : 1;
  const std::int32_t most =
      std::min<std::int32_t>(model.blocks(), static_cast<std::int32_t>(request.agents.size()));
  const std::int32_t hi = request.stages > 0 ? request.stages : most;
  if (lo > model.blocks()) {
    best.reason = PlanReason::kMoreStagesThanLayers;
    return best;
  }
  best.reason = PlanReason::kStageTooLarge;
  best.needed = smallest_need(model, hi);
  for (std::int32_t stages = lo; stages <= hi; ++stages) {
    StagePlan plan = plan_for(model, request, stages);
    plan.needed = smallest_need(model, stages);
    plan.largest = best.largest;
    const bool better = plan.ok() && (!best.ok() || plan.tokens_per_s > best.tokens_per_s);
    const bool says_more = !best.ok() && plan.reason == PlanReason::kTooFewAgents &&
                           best.reason != PlanReason::kTooFewAgents;
    if (better || says_more) best = plan;
  }
  return best;
}

}  // namespace shoal::swarm
