// Devices that would slow a pipeline down, when it is planned and later.
#include "coordinator/core/decisions/growing_pipeline.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

// 10 kB/s carry next to nothing of what the others compute, and hold up every average.
constexpr AgentLine kThread{.up = 1e4, .down = 1e4};

FreeDevice device(std::uint64_t agent, double gflops = 10) {
  FreeDevice free{AgentId(agent), 0, mebibytes(1024), gflops, "host-" + std::to_string(agent)};
  free.at.host = "lab";  // all behind one line, which nothing crosses
  return free;
}

// Two stages of two layers each.
PlacementInput pipeline(std::uint64_t devices) {
  PlacementInput input;
  input.spec.name = "a";
  input.spec.data.train = "/x";
  input.spec.swarm.stages = 2;
  input.spec = with_derived_fields(input.spec);
  input.devices_known = static_cast<std::int64_t>(devices);
  for (std::uint64_t n = 1; n <= devices; ++n) input.free.push_back(device(n));
  return input;
}

// With so many replicas of each stage, and free devices.
PlacementInput running(std::vector<int> replicas, std::uint64_t free) {
  PlacementInput input = pipeline(free);
  input.cut = {{0, 3}, {3, 6}};
  std::uint64_t next = 1;
  for (std::size_t stage = 0; stage < replicas.size(); ++stage) {
    for (int i = 0; i < replicas[stage]; ++i, ++next) {
      PlacedReplica& placed = input.live.emplace_back();
      placed.id = ReplicaId(next), placed.agent = AgentId(100 + next);
      placed.stage = static_cast<StageIndex>(stage);
      placed.memory = mebibytes(1024), placed.gflops = 10;
      placed.at.host = "lab";
    }
  }
  return input;
}

bool uses(const PlacementDecision& decision, std::uint64_t agent) {
  return std::ranges::find(decision.places, AgentId(agent), &Place::agent) != decision.places.end();
}

TEST(GrowingPipeline, TakesNobodyWhoHoldsTheOthersUp) {
  auto input = running({2, 1}, 1);
  EXPECT_TRUE(uses(decide_placement(input), 1));
  input.free[0].at.line = kThread;
  const auto decision = decide_placement(input);
  EXPECT_FALSE(uses(decision, 1));
  ASSERT_EQ(decision.left_out.size(), 1u);
  EXPECT_EQ(decision.left_out[0].agent, AgentId(1));
  EXPECT_EQ(decision.left_out[0].line_bytes_per_s, 1e4);
  EXPECT_LT(decision.left_out[0].with, decision.left_out[0].without);
}

TEST(GrowingPipeline, TakesAnybodyForAStageThatNobodyServes) {
  auto input = running({2, 0}, 1);
  input.free[0].at.line = kThread;
  EXPECT_TRUE(uses(decide_placement(input), 1));
}

TEST(GrowingPipeline, BeginsWithoutWhoWouldHoldTheOthersUp) {
  auto input = pipeline(4);
  input.free[0].gflops = 100;
  input.free[0].at.line = kThread;
  const auto decision = decide_placement(input);
  EXPECT_FALSE(uses(decision, 1));
  ASSERT_EQ(decision.left_out.size(), 1u);
  EXPECT_EQ(decision.left_out[0].agent, AgentId(1));
}

// As a job that was paused does.
TEST(GrowingPipeline, BeginsAgainWithItsCutAndByItsLines) {
  auto input = pipeline(3);
  input.cut = {{0, 2}, {2, 6}};
  input.free[0].gflops = 100;
  input.free[0].at.line = kThread;
  const auto decision = decide_placement(input);
  EXPECT_EQ(decision.reason, PlacementReason::kPlaced);
  EXPECT_EQ(decision.cut, input.cut);
  EXPECT_FALSE(uses(decision, 1));
}

// A device cannot hold both stages, so both devices have to be used.
TEST(GrowingPipeline, SaysWhichLineBinds) {
  auto input = pipeline(2);
  const auto plan = decide_placement(pipeline(8));
  for (auto& each : input.free) each.memory = *std::ranges::max_element(plan.memory);
  input.free[1].at.line = kThread;
  const Forecast forecast = decide_placement(input).forecast;
  EXPECT_EQ(forecast.behind_line, std::vector<AgentId>{AgentId(2)});
  EXPECT_EQ(forecast.line_bytes_per_s, 1e4);
  EXPECT_LT(forecast.network, 0.5);
  EXPECT_EQ(forecast.lines.assumed, 1) << "that of the other";
}

}  // namespace
}  // namespace shoal::coordinator
