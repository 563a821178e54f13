// What the simulator of pipelines must show: exact bubbles, hidden latency, losses that cost
// little, equal runs of a seed.
#include <gtest/gtest.h>

#include "tests/sim/swarm/options.h"

namespace shoal::sim::swarm {
namespace {

double mean_fraction(Options options, std::uint64_t seeds = 4) {
  double sum = 0;
  for (options.seed = 1; options.seed <= seeds; ++options.seed) sum += simulate(options).fraction;
  return sum / static_cast<double>(seeds);
}

// No jitter, no latency, nothing to carry.
Options ideal(Schedule schedule, std::int32_t stages, std::int64_t microbatches) {
  Options o;
  o.schedule = schedule;
  o.agents = o.stages = stages;
  o.microbatches = microbatches;
  o.payload_bytes = 0;
  o.jitter = 0;
  o.steps = 3;
  return o;
}

TEST(SwarmSim, GpipeBubbleIsExact) {
  for (const std::int32_t stages : {1, 2, 4, 8}) {
    for (const std::int64_t microbatches : {1, 8, 32, 64}) {
      for (const auto schedule : {Schedule::kGpipe, Schedule::kGpipeBlocking}) {
        const double m = static_cast<double>(microbatches);
        EXPECT_NEAR(simulate(ideal(schedule, stages, microbatches)).fraction, m / (m + stages - 1),
                    1e-9);
      }
    }
  }
}

TEST(SwarmSim, OneForwardOneBackwardHasTheSameBubble) {
  Options o = ideal(Schedule::kOneForwardOneBackward, 4, 32);
  EXPECT_NEAR(simulate(o).fraction, 32.0 / 35, 1e-9);
}

TEST(SwarmSim, EqualSeedsGiveEqualRuns) {
  Options o;
  o.mtbf_h = 0.5;
  o.steps = 10;
  const Measured a = simulate(o), b = simulate(o);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.virtual_s, b.virtual_s);
}

TEST(SwarmSim, EveryGradientIsAddedOnceWithoutFailures) {
  Options o;
  o.steps = 5;
  const Measured m = simulate(o);
  EXPECT_EQ(m.added, 5 * 256 * 4);
  EXPECT_EQ(m.added_again, 0);
  EXPECT_EQ(m.wasted, 0);
}

TEST(SwarmSim, LatencyIsHidden) {
  for (const int rtt_ms : {0, 100, 500}) {
    Options o;
    o.one_way = {{milliseconds(rtt_ms / 2)}};
    EXPECT_GE(mean_fraction(o), rtt_ms == 500 ? 0.78 : 0.83) << rtt_ms;
    o.schedule = Schedule::kGpipeBlocking;
    EXPECT_LE(mean_fraction(o), rtt_ms == 0 ? 0.9 : 0.65) << rtt_ms;
  }
}

// Steps overlap, so that nothing waits for the last microbatch of one; the end of a round drains.
TEST(SwarmSim, TwoWeightVersionsHideTheEndOfAStep) {
  Options o;
  o.schedule = Schedule::kTwoBuffered;
  const double one_round = mean_fraction(o);
  EXPECT_GE(one_round, 0.95);
  o.steps_per_round = 4;
  const double five_rounds = mean_fraction(o);
  EXPECT_LT(five_rounds, one_round);
  o.steps_per_round = 1;
  const double every_step = mean_fraction(o);
  o.schedule = Schedule::kSwarm;
  EXPECT_NEAR(every_step, mean_fraction(o), 0.005);
}

TEST(SwarmSim, TwoWeightVersionsLoseNothingButWhatALostRouterDrew) {
  Options o;
  o.schedule = Schedule::kTwoBuffered;
  o.mtbf_h = 0.2;
  o.steps = 40;
  o.seed = 2;
  const Measured m = simulate(o);
  EXPECT_EQ(m.steps, 40);
  EXPECT_GT(m.deaths, 1);
  EXPECT_GT(m.retries, 0);
  EXPECT_GE(m.added, m.microbatches * 4);
  EXPECT_GT(m.routers_lost, 0);
  EXPECT_LT(m.microbatches, 40 * 256);
  EXPECT_GE(m.microbatches + m.voided, 36 * 256);
}

// A router's budget is spent by the first of several losses; what waited for it met a second loss.
TEST(SwarmSim, ManyLossesAtOnceEndTheStepAllTheSame) {
  Options o;
  o.agents = 512;
  o.stages = 8;
  o.microbatches = 8192;
  o.window = 8192;
  o.steps = 1;
  for (std::int32_t agent = 0; agent < 512; agent += 3) {
    o.trace.push_back({Instant{} + milliseconds(3000 + agent * 10), false, agent});
  }
  EXPECT_EQ(simulate(o).steps, 1);
}

TEST(SwarmSim, FailuresCostLittleMoreThanTheDeadAgents) {
  Options o;
  o.agents = 64;
  o.stages = 8;
  o.microbatches = 1024;
  o.window = 512;
  o.forward = milliseconds(200);
  o.backward = milliseconds(600);
  o.one_way = {{milliseconds(25)}};
  o.mtbf_h = 1;
  o.steps = 30;
  o.seed = 3;
  const Measured m = simulate(o);
  EXPECT_GT(m.deaths, 10);
  EXPECT_GT(m.retries, 0);
  EXPECT_GE(m.fraction, 0.69);
  EXPECT_EQ(m.steps, 30);
}

TEST(SwarmSim, RetryStormHappensOnlyToTheNaiveOne) {
  Options o;
  o.agents = 64;
  o.stages = 8;
  o.microbatches = 1024;
  o.window = 256;
  o.forward = milliseconds(200);
  o.backward = milliseconds(600);
  o.one_way = {{milliseconds(25)}};
  o.mtbf_h = 24;
  o.steps = 8;
  o.time_max = seconds(3600);
  EXPECT_GE(mean_fraction(o, 2), 0.80);
  o.retrying = Retrying::kTimeout;
  o.retry_timeout = seconds(5);
  o.response_time = true;
  EXPECT_LE(mean_fraction(o, 1), 0.1);
}

// One of two routers dies in the first step: what it had under way is void, and the step ends
// without the rest of its share.
TEST(SwarmSim, AStepEndsWithoutTheRouterThatWasLost) {
  Options o;
  o.agents = 8;
  o.stages = 4;
  o.microbatches = 64;
  o.steps = 1;
  o.jitter = 0;
  EXPECT_EQ(simulate(o).microbatches, 64);
  std::int64_t lost = 0;
  for (std::int32_t agent = 0; agent < o.agents; ++agent) {
    o.trace = {{Instant{} + seconds(2), false, agent}};
    const Measured m = simulate(o);
    EXPECT_EQ(m.steps, 1);
    lost += m.routers_lost;
    EXPECT_EQ(m.routers_lost > 0, m.microbatches < 64);
    EXPECT_EQ(m.routers_lost > 0, m.voided > 0);
  }
  EXPECT_EQ(lost, 2) << "of two routers";
}

// The last router is lost: the pipeline waits for a replica of stage 0, which draws what is to
// come.
TEST(SwarmSim, APipelineWaitsForARouter) {
  Options o;
  o.agents = o.stages = 4;
  o.microbatches = 16;
  o.steps = 3;
  o.rebalance = false;
  for (std::int32_t agent = 0; agent < o.agents; ++agent) {
    o.trace = {{Instant{} + seconds(1), false, agent}, {Instant{} + seconds(60), true, agent}};
    const Measured m = simulate(o);
    EXPECT_EQ(m.steps, 3);
    EXPECT_GT(m.virtual_s, 60);
  }
}

// A router gets as much of every step as its speed is of theirs.
TEST(SwarmSim, RoutersDrawByTheirSpeed) {
  Options o;
  o.agents = 8;
  o.stages = 4;
  o.microbatches = 100;
  o.speeds = {3, 1};
  o.jitter = 0;
  o.payload_bytes = 0;
  EXPECT_GE(simulate(o).fraction, 0.85);
}

TEST(SwarmSim, TraceEmptiesAStageAndItGoesOn) {
  Options o;
  o.agents = 8;
  o.stages = 4;
  o.microbatches = 64;
  o.steps = 20;
  o.trace = {{Instant{} + seconds(20), false, 0},
             {Instant{} + seconds(22), false, 4},
             {Instant{} + seconds(90), true, 0}};
  const Measured m = simulate(o);
  EXPECT_EQ(m.steps, 20);
  EXPECT_EQ(m.deaths, 2);
  EXPECT_EQ(m.joins, 1);
}

TEST(SwarmSim, JoinersToTheWeakestStageKeepThePoolLevel) {
  FluidOptions o;
  const double joined = simulate_fluid(o).of_optimum;
  EXPECT_GE(joined, 0.98);
  o.join_weakest = false;
  o.every = {};
  EXPECT_LE(simulate_fluid(o).of_optimum, 0.88);
}

TEST(SwarmSim, ChainsRestartAfterEveryLossAndFinish) {
  Options o;
  o.schedule = Schedule::kGpipe;
  o.mtbf_h = 1;
  o.steps = 100;
  o.seed = 2;
  const Measured m = simulate(o);
  EXPECT_EQ(m.steps, 100);
  EXPECT_GT(m.deaths, 1);
  EXPECT_LT(m.fraction, 0.9);
}

TEST(SwarmSim, RefusesWhatCannotRun) {
  Options o;
  o.stages = 32;
  EXPECT_FALSE(why_not(o).empty());
}

}  // namespace
}  // namespace shoal::sim::swarm
