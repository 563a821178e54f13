// Whole pipelines of sessions over hundreds of seeds, healthy and under every kind of fault; and
// bugs planted in the driver or the network, which the simulation must notice.
#include <gtest/gtest.h>

#include "swarm/core/session/simulation_test_util.h"

namespace shoal::swarm {
namespace {

SimulationOptions drawn(std::uint64_t seed) {
  Prng prng(mix_seed(seed, 77));
  SimulationOptions options{.seed = seed};
  options.stages = static_cast<std::int32_t>(prng.range(2, 5));
  options.replicas_max = static_cast<std::int32_t>(prng.range(1, 4));
  if (prng.chance(.3)) options.schedule = PipelineSchedule::kOneForwardOneBackward;
  options.speeds = prng.chance(.5);
  options.steps = prng.range(1, 4);  // one: as with ddp
  options.latency_max = milliseconds(prng.range(1, 150));
  options.logits = .5;
  if (prng.chance(.35)) options.schedule = PipelineSchedule::kTwoBufferedWeights;
  return options;
}

void expect_none(const Simulation& simulation, std::uint64_t seed) {
  for (const std::string& problem : simulation.problems) {
    ADD_FAILURE() << "seed " << seed << ": " << problem;
  }
}

TEST(StageSessionSimulation, WithoutFaultsEveryMicrobatchIsAddedOncePerStage) {
  std::int64_t microbatches = 0, evaluated = 0, logits = 0, ahead = 0;
  for (std::uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    Simulation simulation(drawn(seed));
    simulation.run();
    expect_none(simulation, seed);
    EXPECT_EQ(simulation.answered_only + simulation.cut_offs + simulation.void_evaluations, 0);
    microbatches += simulation.microbatches;
    evaluated += simulation.evaluated;
    logits += simulation.logits;
    ahead += simulation.ahead;
  }
  EXPECT_GT(microbatches, 50'000);
  EXPECT_GT(evaluated, 300);
  EXPECT_GT(logits, 100);
  EXPECT_GT(ahead, 5'000);
}

TEST(StageSessionSimulation, TwoVersionsNeedNoBarrierBetweenSteps) {
  std::int64_t ahead = 0, microbatches = 0;
  for (std::uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SimulationOptions options = drawn(seed);
    options.schedule = PipelineSchedule::kTwoBufferedWeights;
    Simulation simulation(options);
    simulation.run();
    expect_none(simulation, seed);
    ahead += simulation.ahead;
    microbatches += simulation.microbatches;
  }
  EXPECT_GT(ahead, microbatches / 4);
}

SimulationOptions unlucky(std::uint64_t seed) {
  Prng prng(mix_seed(seed, 78));
  SimulationOptions options = drawn(seed);
  const auto mean = [&prng] {
    return prng.chance(.5) ? milliseconds(prng.range(300, 6000)) : Duration{};
  };
  options.breaks = mean();
  options.deaths = mean();
  options.freezes = mean();
  options.joins = mean();
  options.close = prng.chance(.4) ? .5 : 0;
  options.abort = prng.chance(.3) ? .5 : 0;
  options.stop = prng.chance(.2) ? .5 : 0;
  options.rounds = 4;
  return options;
}

TEST(StageSessionSimulation, ComesThroughLosses) {
  Simulation sum{SimulationOptions{}};  // of the counters
  for (std::uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    Simulation simulation(unlucky(seed));
    simulation.run();
    expect_none(simulation, seed);
    sum.breaks += simulation.breaks;
    sum.deaths += simulation.deaths;
    sum.freezes += simulation.freezes;
    sum.joins += simulation.joins;
    sum.closes += simulation.closes;
    sum.aborts += simulation.aborts;
    sum.stops += simulation.stops;
    sum.resent += simulation.resent;
    sum.answered_only += simulation.answered_only;
    sum.past += simulation.past;
    sum.calls += simulation.calls;
    sum.twice += simulation.twice;
  }
  for (const auto count : {sum.breaks, sum.deaths, sum.freezes, sum.joins, sum.closes, sum.aborts,
                           sum.stops, sum.resent, sum.answered_only, sum.past, sum.twice}) {
    EXPECT_GT(count, 50);
  }
}

// Lines that are cut end no replica: one that is cut off waits, and the others do not wait for it.
TEST(StageSessionSimulation, ComesThroughCuts) {
  std::int64_t cuts = 0, cuts_of_all = 0, cut_offs = 0, void_evaluations = 0;
  for (std::uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SimulationOptions options = seed % 2 == 0 ? drawn(seed) : unlucky(seed);
    options.cuts = milliseconds(Prng(mix_seed(seed, 79)).range(500, 10'000));
    Simulation simulation(options);
    simulation.run();
    expect_none(simulation, seed);
    cuts += simulation.cuts;
    cuts_of_all += simulation.cuts_of_all;
    cut_offs += simulation.cut_offs;
    void_evaluations += simulation.void_evaluations;
  }
  for (const auto count : {cuts, cuts_of_all, cut_offs, void_evaluations}) EXPECT_GT(count, 50);
}

TEST(StageSessionSimulation, TheSameSeedGivesTheSameRun) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Simulation once(unlucky(seed)), again(unlucky(seed)), other(unlucky(seed + 1));
    once.run();
    again.run();
    other.run();
    EXPECT_EQ(once.trace(), again.trace());
    EXPECT_NE(once.trace(), other.trace());
  }
}

// A bug that is planted must show in some of ten seeds.
int caught(void (*plant)(SimulationOptions&)) {
  int seeds = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SimulationOptions options = drawn(seed);
    plant(options);
    Simulation simulation(options);
    simulation.run();
    seeds += !simulation.problems.empty();
  }
  return seeds;
}

TEST(StageSessionSimulation, NoticesAnAnswerThatVanishes) {
  EXPECT_GT(caught([](SimulationOptions& o) { o.lose_answer = .05; }), 5);
}
TEST(StageSessionSimulation, NoticesGradientsOfAnotherTask) {
  EXPECT_GT(caught([](SimulationOptions& o) { o.swap_answer = .05; }), 5);
}
TEST(StageSessionSimulation, NoticesADriverThatKeepsALossToItself) {
  EXPECT_GT(caught([](SimulationOptions& o) { o.breaks = milliseconds(200), o.deaf = true; }), 5);
}
TEST(StageSessionSimulation, NoticesARouterThatIsDoneTooEarly) {
  EXPECT_GT(caught([](SimulationOptions& o) { o.early_gossip = .2; }), 5);
}
TEST(StageSessionSimulation, NoticesADeviceThatAddsWhatItShallOnlyAnswer) {
  EXPECT_GT(caught([](SimulationOptions& o) {
              o.breaks = milliseconds(50);
              o.always_add = true;
            }),
            3);
}

}  // namespace
}  // namespace shoal::swarm
