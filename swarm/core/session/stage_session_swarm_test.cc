// Whole pipelines of sessions over hundreds of seeds, healthy and under every kind of fault; and
// bugs planted in the driver or the network, which the world must notice.
#include <gtest/gtest.h>

#include "swarm/core/session/swarm_test_util.h"

namespace shoal::swarm {
namespace {

WorldOptions drawn(std::uint64_t seed) {
  Prng prng(mix_seed(seed, 77));
  WorldOptions options{.seed = seed};
  options.stages = static_cast<std::int32_t>(prng.range(2, 5));
  options.replicas_max = static_cast<std::int32_t>(prng.range(1, 4));
  if (prng.chance(.3)) options.schedule = PipelineSchedule::kOneForwardOneBackward;
  if (prng.chance(.2)) options.wiring = WiringPolicy::kRandom;
  if (prng.chance(.2)) options.wiring = WiringPolicy::kSticky;
  options.speeds = prng.chance(.5);
  options.steps = prng.range(1, 4);  // one: as with ddp
  options.latency_max = milliseconds(prng.range(1, 150));
  options.logits = .5;
  if (prng.chance(.35)) options.schedule = PipelineSchedule::kTwoBufferedWeights;
  return options;
}

void expect_none(const World& world, std::uint64_t seed) {
  for (const std::string& violation : world.violations) {
    ADD_FAILURE() << "seed " << seed << ": " << violation;
  }
}

TEST(StageSessionWorld, WithoutFaultsEveryMicrobatchIsAddedOncePerStage) {
  std::int64_t microbatches = 0, evaluated = 0, logits = 0, ahead = 0;
  for (std::uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    World world(drawn(seed));
    world.run();
    expect_none(world, seed);
    EXPECT_EQ(world.answered_only + world.cut_offs + world.void_evaluations, 0);
    microbatches += world.microbatches;
    evaluated += world.evaluated;
    logits += world.logits;
    ahead += world.ahead;
  }
  EXPECT_GT(microbatches, 50'000);
  EXPECT_GT(evaluated, 300);
  EXPECT_GT(logits, 100);
  EXPECT_GT(ahead, 5'000);
}

TEST(StageSessionWorld, TwoVersionsNeedNoBarrierBetweenSteps) {
  std::int64_t ahead = 0, microbatches = 0;
  for (std::uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    WorldOptions options = drawn(seed);
    options.schedule = PipelineSchedule::kTwoBufferedWeights;
    World world(options);
    world.run();
    expect_none(world, seed);
    ahead += world.ahead;
    microbatches += world.microbatches;
  }
  EXPECT_GT(ahead, microbatches / 4);
}

WorldOptions unlucky(std::uint64_t seed) {
  Prng prng(mix_seed(seed, 78));
  WorldOptions options = drawn(seed);
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

TEST(StageSessionWorld, ComesThroughLosses) {
  World sum{WorldOptions{}};  // of the counters
  for (std::uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    World world(unlucky(seed));
    world.run();
    expect_none(world, seed);
    sum.breaks += world.breaks;
    sum.deaths += world.deaths;
    sum.freezes += world.freezes;
    sum.joins += world.joins;
    sum.closes += world.closes;
    sum.aborts += world.aborts;
    sum.stops += world.stops;
    sum.resent += world.resent;
    sum.answered_only += world.answered_only;
    sum.past += world.past;
    sum.calls += world.calls;
    sum.twice += world.twice;
  }
  for (const auto count : {sum.breaks, sum.deaths, sum.freezes, sum.joins, sum.closes, sum.aborts,
                           sum.stops, sum.resent, sum.answered_only, sum.past, sum.twice}) {
    EXPECT_GT(count, 50);
  }
}

// Lines that are cut end nobody: whoever is cut off waits, and the others do not wait for it.
TEST(StageSessionWorld, ComesThroughCuts) {
  std::int64_t cuts = 0, cuts_of_all = 0, cut_offs = 0, void_evaluations = 0;
  for (std::uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    WorldOptions options = seed % 2 == 0 ? drawn(seed) : unlucky(seed);
    options.cuts = milliseconds(Prng(mix_seed(seed, 79)).range(500, 10'000));
    World world(options);
    world.run();
    expect_none(world, seed);
    cuts += world.cuts;
    cuts_of_all += world.cuts_of_all;
    cut_offs += world.cut_offs;
    void_evaluations += world.void_evaluations;
  }
  for (const auto count : {cuts, cuts_of_all, cut_offs, void_evaluations}) EXPECT_GT(count, 50);
}

TEST(StageSessionWorld, TheSameSeedGivesTheSameRun) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World once(unlucky(seed)), again(unlucky(seed)), other(unlucky(seed + 1));
    once.run();
    again.run();
    other.run();
    EXPECT_EQ(once.trace(), again.trace());
    EXPECT_NE(once.trace(), other.trace());
  }
}

// A bug that is planted must show in some of ten seeds.
int caught(void (*plant)(WorldOptions&)) {
  int seeds = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    WorldOptions options = drawn(seed);
    plant(options);
    World world(options);
    world.run();
    seeds += !world.violations.empty();
  }
  return seeds;
}

TEST(StageSessionWorld, NoticesAnAnswerThatVanishes) {
  EXPECT_GT(caught([](WorldOptions& o) { o.lose_answer = .05; }), 5);
}
TEST(StageSessionWorld, NoticesGradientsOfAnotherTask) {
  EXPECT_GT(caught([](WorldOptions& o) { o.swap_answer = .05; }), 5);
}
TEST(StageSessionWorld, NoticesADriverThatKeepsALossToItself) {
  EXPECT_GT(caught([](WorldOptions& o) { o.breaks = milliseconds(200), o.deaf = true; }), 5);
}
TEST(StageSessionWorld, NoticesARouterThatIsDoneTooEarly) {
  EXPECT_GT(caught([](WorldOptions& o) { o.early_word = .2; }), 5);
}
TEST(StageSessionWorld, NoticesADeviceThatAddsWhatItShallOnlyAnswer) {
  EXPECT_GT(caught([](WorldOptions& o) {
              o.breaks = milliseconds(50);
              o.always_add = true;
            }),
            3);
}

}  // namespace
}  // namespace shoal::swarm
