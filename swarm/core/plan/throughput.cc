#include "swarm/core/plan/throughput.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace shoal::swarm {
namespace {

// What each placement could compute, tokens/s.
std::vector<double> compute_rates(const CostModel& model, const Cluster& cluster,
                                  const std::vector<UnitRange>& stages,
                                  const std::vector<Placement>& placements) {
  std::vector<double> rates;
  for (const Placement& p : placements) {
    rates.push_back(p.share * cluster.agents[p.agent].speed / model.flops(stages[p.stage]));
  }
  return rates;
}

double smallest_stage(StageIndex stages, const std::vector<Placement>& placements,
                      const std::vector<double>& rates) {
  std::vector<double> capacity(static_cast<std::size_t>(stages), 0);
  for (std::size_t i = 0; i < placements.size(); ++i) capacity[placements[i].stage] += rates[i];
  return *std::ranges::min_element(capacity);
}

// Bytes that one average of a stage moves through a line for a member behind it, each way, when
// `elsewhere` of the `members` are not. With equal lines each member owns a part; behind a line
// that is much slower than the others' it owns none.
double averaged_bytes(const CostModel& model, const Averaging& averaging, UnitRange stage,
                      double members, double elsewhere, bool owns_a_part) {
  const double vector =
      static_cast<double>(model.parameters(stage)) * averaging.bytes_per_value * averaging.share;
  return vector * (owns_a_part ? 2 * elsewhere / members : std::min(1.0, elsewhere));
}

constexpr double kLineBinds = 0.999;       // of what devices compute
constexpr double kOwnsNothingBelow = 0.5;  // of the mean line of the members

// Rounds train `steps` steps of `step_s` and then wait for what of the average is not behind them.
void add_averaging(const Averaging& averaging, double step_s, Throughput& result) {
  result.training_tokens_per_s = result.tokens_per_s;
  const double round_s = averaging.steps * step_s;
  const double waits = std::max(0.0, result.average_s - averaging.steps_behind * step_s);
  result.average_s = waits;
  result.tokens_per_s *= round_s / (round_s + waits);
}

// How many placements of each stage are behind each line.
class PlacedBehind {
 public:
  PlacedBehind(const LineMap& lines, std::size_t stages, const std::vector<Placement>& placements)
      : stages_(stages), behind_(lines.lines().size() * stages, 0), all_(stages, 0) {
    for (const Placement& p : placements) {
      ++all_[static_cast<std::size_t>(p.stage)];
      for (const std::int32_t line : lines.of(p.agent)) ++behind_[at(line, p.stage)];
    }
  }
  double of(std::int32_t line, StageIndex stage) const { return behind_[at(line, stage)]; }
  // Whether any of the stages before and after is not behind the line.
  bool has_neighbors_elsewhere(std::int32_t line, StageIndex stage) const {
    for (const StageIndex next : {stage - 1, stage + 1}) {
      if (next < 0 || next >= static_cast<StageIndex>(stages_)) continue;
      if (of(line, next) < all_[static_cast<std::size_t>(next)]) return true;
    }
    return false;
  }

 private:
  std::size_t at(std::int32_t line, StageIndex stage) const {
    return static_cast<std::size_t>(line) * stages_ + static_cast<std::size_t>(stage);
  }
  const std::size_t stages_;
  std::vector<double> behind_, all_;
};

}  // namespace

double one_stage_tokens_per_s(const CostModel& model, const std::vector<double>& speeds,
                              bool equal_steps) {
  SHOAL_CHECK(!speeds.empty());
  const double flops = equal_steps
                           ? static_cast<double>(speeds.size()) * *std::ranges::min_element(speeds)
                           : std::accumulate(speeds.begin(), speeds.end(), 0.0);
  return flops / model.flops(model.whole());
}

// What a microbatch takes over all boundaries beside the computing, one way. Each takes half a
// round trip and the time on the line of the slower side, a stage being the mean of its replicas.
double Forecaster::hops_s(StageIndex stages, const std::vector<Placement>& placements,
                          const std::vector<double>& rates) const {
  const auto bytes = static_cast<double>(model_.tokens_per_microbatch() * model_.boundary_bytes());
  const PlacedBehind behind(lines_, static_cast<std::size_t>(stages), placements);
  std::vector<double> waits(static_cast<std::size_t>(stages), 0), all(waits);
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const auto agent = static_cast<std::size_t>(placements[i].agent);
    double wait = agent < cluster_.round_trip_s.size() ? cluster_.round_trip_s[agent] / 2 : 0;
    double line_s = 0;
    for (const std::int32_t line : lines_.of(placements[i].agent)) {
      if (!behind.has_neighbors_elsewhere(line, placements[i].stage)) continue;
      line_s = std::max(line_s, bytes / lines_.lines()[static_cast<std::size_t>(line)].bytes_per_s);
    }
    wait += line_s;
    waits[placements[i].stage] += rates[i] * wait;
    all[placements[i].stage] += rates[i];
  }
  double sum = 0;
  for (StageIndex s = 0; s + 1 < stages; ++s) {
    const auto mean = [&](StageIndex stage) {
      return all[stage] > 0 ? waits[stage] / all[stage] : 0;
    };
    sum += std::max(mean(s), mean(s + 1));
  }
  return sum;
}

// What the slowest line takes for the averages of all stages, which travel at the same time.
double Forecaster::average_s(const std::vector<UnitRange>& stages,
                             const std::vector<Placement>& placements) const {
  if (cluster_.averaging.bytes_per_value <= 0) return 0;
  std::vector<double> members(stages.size(), 0), line_sum(stages.size(), 0);
  for (const Placement& p : placements) {
    ++members[p.stage];
    line_sum[p.stage] += lines_.slowest(p.agent);
  }
  const std::size_t lines = lines_.lines().size();
  const PlacedBehind behind(lines_, stages.size(), placements);
  std::vector<double> bytes(lines, 0);
  for (const Placement& p : placements) {
    if (members[p.stage] < 2) continue;
    const double mean = line_sum[p.stage] / members[p.stage];
    const bool owns = lines_.slowest(p.agent) >= kOwnsNothingBelow * mean;
    for (const std::int32_t line : lines_.of(p.agent)) {
      bytes[line] += averaged_bytes(model_, cluster_.averaging, stages[p.stage], members[p.stage],
                                    members[p.stage] - behind.of(line, p.stage), owns);
    }
  }
  double longest = 0;
  for (std::size_t line = 0; line < lines; ++line) {
    if (bytes[line] > 0)
      longest = std::max(longest, bytes[line] / lines_.lines()[line].bytes_per_s);
  }
  return longest;
}

Throughput Forecaster::of_one_stage(const std::vector<Placement>& placements) const {
  std::vector<double> speeds;
  for (const Placement& p : placements) {
    speeds.push_back(cluster_.agents[p.agent].speed * cluster_.agents[p.agent].group);
  }
  Throughput result;
  result.tokens_per_s = one_stage_tokens_per_s(model_, speeds, cluster_.equal_steps);
  const double slowest = *std::ranges::min_element(speeds);
  for (const double speed : speeds) {
    result.rates.push_back((cluster_.equal_steps ? slowest : speed) / model_.flops(model_.whole()));
  }
  return result;
}

// Filling and draining costs the time of a microbatch and of its way there and back at every
// boundary, beside the m microbatches of a step that follow each other at the pace of the flow.
Throughput Forecaster::of_a_pipeline(const std::vector<UnitRange>& cut,
                                     const std::vector<Placement>& placements) const {
  const auto stages = static_cast<StageIndex>(cut.size());
  const std::vector<double> able = compute_rates(model_, cluster_, cut, placements);
  const double computed = smallest_stage(stages, placements, able);
  LineFlow flow =
      flow_through(stages, placements, able, lines_, static_cast<double>(model_.boundary_bytes()));
  Throughput result;
  result.network = computed > 0 ? std::min(1.0, flow.tokens_per_s / computed) : 1;
  if (result.network < kLineBinds) result.full_line = flow.full_line;
  const double replicas = static_cast<double>(placements.size()) / static_cast<double>(stages);
  const double tokens = static_cast<double>(model_.tokens_per_microbatch()) * replicas;
  const double fill = (stages - 1) * tokens / computed + 2 * hops_s(stages, placements, flow.rates);
  const double steady =
      static_cast<double>(cluster_.microbatches_per_router) * tokens / flow.tokens_per_s;
  result.bubble = fill / (steady + fill);
  result.tokens_per_s = flow.tokens_per_s * (1 - result.bubble);
  result.rates = std::move(flow.rates);
  return result;
}

double Forecaster::bound(double weakest_tokens_per_s, StageIndex stages) const {
  const auto microbatches = static_cast<double>(cluster_.microbatches_per_router);
  return weakest_tokens_per_s * microbatches / (microbatches + stages - 1);
}

Throughput Forecaster::of(const std::vector<UnitRange>& stages,
                          const std::vector<Placement>& placements) const {
  Throughput result =
      stages.size() == 1 ? of_one_stage(placements) : of_a_pipeline(stages, placements);
  const auto routers = std::ranges::count(placements, 0, &Placement::stage);
  const auto batch = static_cast<double>(routers * cluster_.microbatches_per_router *
                                         model_.tokens_per_microbatch());
  result.average_s = average_s(stages, placements);
  add_averaging(cluster_.averaging, batch / result.tokens_per_s, result);
  return result;
}

}  // namespace shoal::swarm
