// The pipeline's planner and simulator: plans of random clusters beside the best that long
// annealing finds, how long an assignment of many agents takes, one decision of the wiring, and how
// many events of the pipeline simulator pass in a second on one core.
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/check.h"
#include "base/prng.h"
#include "bench/bench.h"
#include "bench/cpu_seconds.h"
#include "swarm/core/plan/assignment.h"
#include "swarm/core/plan/random_clusters.h"
#include "swarm/core/session/wiring.h"
#include "tests/sim/swarm/options.h"

namespace shoal::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double assignment_ms(const PlannerOptions& options) {
  Prng prng(1);
  std::vector<swarm::AssignableAgent> agents;
  for (std::int64_t i = 0; i < options.agents; ++i) {
    agents.push_back({AgentId(static_cast<std::uint64_t>(i) + 1), std::exp(0.8 * prng.normal()),
                      Bytes(1), "host" + std::to_string(i / 8)});
  }
  const std::vector<swarm::StageNeed> stages(options.stages, swarm::StageNeed{1, Bytes(1)});
  std::vector<double> times;
  for (int i = 0; i < options.repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = swarm::assign_agents(agents, stages, {.min_replicas = 2});
    times.push_back(seconds_since(begin) * 1e3);
    SHOAL_CHECK(result.ok() && result.throughput > 0.9 * result.bound);
  }
  return median(times);
}

struct Plans {
  double worst = 1;                       // forecast by that of the best plan known
  double longest_ms = 0, typical_ms = 0;  // to make one
};

Plans plan_clusters(const PlannerOptions& options) {
  constexpr int kAnnealingSteps = 6000;
  Prng prng(11);
  Plans plans;
  std::vector<double> times;
  for (std::int64_t i = 0; i < options.clusters; ++i) {
    const swarm::CostModel model = swarm::random_model(prng);
    const swarm::PlanRequest request = swarm::random_request(prng);
    const double begin = cpu_seconds();
    const swarm::StagePlan plan = swarm::plan_stages(model, request);
    times.push_back((cpu_seconds() - begin) * 1e3);
    const double best = swarm::annealed_best(model, request, prng, kAnnealingSteps);
    if (best > 0) plans.worst = std::min(plans.worst, plan.throughput.tokens_per_s / best);
  }
  if (times.empty()) return plans;
  plans.longest_ms = *std::ranges::max_element(times);
  plans.typical_ms = median(times);
  return plans;
}

double wiring_ns(const PlannerOptions& options) {
  constexpr int kDecisions = 1'000'000;
  Prng prng(1);
  swarm::Wiring wiring(1);
  for (std::int64_t i = 1; i <= options.replicas; ++i) {
    wiring.add(ReplicaId(static_cast<std::uint64_t>(i)), milliseconds(prng.range(50, 400)), 4);
  }
  std::vector<double> times;
  for (int i = 0; i < options.repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (int n = 0; n < kDecisions; ++n) wiring.give_back(*wiring.choose(1));
    times.push_back(seconds_since(begin) / kDecisions * 1e9);
  }
  return median(times);
}

double events_per_s(const PlannerOptions& options) {
  sim::swarm::Options run;
  run.agents = 64;
  run.stages = 8;
  run.microbatches = 1024;
  run.window = 512;
  run.steps = 50;
  std::vector<double> rates;
  for (int i = 0; i < options.repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto measured = sim::swarm::simulate(run);
    rates.push_back(static_cast<double>(measured.events) / seconds_since(begin));
  }
  return median(rates);
}

}  // namespace

int run_planner(const PlannerOptions& options) {
  const Plans plans = plan_clusters(options);
  const double plan = assignment_ms(options), decision = wiring_ns(options);
  const double rate = events_per_s(options);
  const char* format =
      options.json
          ? "{\"clusters\":%lld,\"worst_plan\":%.3f,\"plan_ms\":%.1f,"
            "\"longest_plan_ms\":%.1f,\"agents\":%lld,\"stages\":%d,\"assignment_ms\":%.2f,"
            "\"replicas\":%lld,\"wiring_ns\":%.0f,\"events_per_s\":%.0f}\n"
          : "plans of %lld random clusters: at least %.3f of the best known, "
            "%.1f ms, %.1f at most\n"
            "assignment of %lld agents to %d stages: %.2f ms\n"
            "wiring decision among %lld replicas, credit returned: %.0f ns\n"
            "pipeline simulator: %.0f events/s\n";
  std::printf(format, static_cast<long long>(options.clusters), plans.worst, plans.typical_ms,
              plans.longest_ms, static_cast<long long>(options.agents), options.stages, plan,
              static_cast<long long>(options.replicas), decision, rate);
  return 0;
}

}  // namespace shoal::bench
