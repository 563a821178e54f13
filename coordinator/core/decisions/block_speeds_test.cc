#include "coordinator/core/decisions/block_speeds.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

JobSpec two_stages() {
  JobSpec spec;
  spec.name = "a";
  spec.data.train = "/x";
  spec.swarm.stages = 2;
  return with_derived_fields(spec);
}

double block_gflop(const JobSpec& spec) {
  const swarm::CostModel model(spec, swarm::cost_options(spec));
  return model.flops({1, 2}) * static_cast<double>(model.tokens_per_microbatch()) / 1e9;
}

FreeDevice device(std::uint64_t agent, double gflops, std::optional<BlockTimes> block = {}) {
  FreeDevice free{AgentId(agent), 0, mebibytes(4096), gflops, "host-" + std::to_string(agent)};
  free.at.host = "lab";
  free.block = block;
  return free;
}

PlacementInput input_of(std::vector<FreeDevice> free) {
  PlacementInput input;
  input.spec = two_stages();
  input.devices_known = static_cast<std::int64_t>(free.size());
  input.free = std::move(free);
  return input;
}

TEST(BlockSpeeds, WithoutAMeasurementNothingChanges) {
  PlacementInput input = input_of({device(1, 100), device(2, 50)});
  go_by_blocks(input);
  EXPECT_EQ(input.free[0].gflops, 100);
  EXPECT_FALSE(input.ends.has_value());
}

TEST(BlockSpeeds, ABlockTakesADeviceAsLongAsItMeasured) {
  const BlockTimes fast{milliseconds(10), milliseconds(2), milliseconds(20)};
  const BlockTimes slow{milliseconds(40), milliseconds(16), milliseconds(40)};
  PlacementInput input = input_of({device(1, 100, fast), device(2, 100, slow)});
  go_by_blocks(input);
  const double gflop = block_gflop(input.spec);
  EXPECT_DOUBLE_EQ(input.free[0].gflops, gflop / 0.010);
  EXPECT_DOUBLE_EQ(input.free[1].gflops, gflop / 0.040);
  ASSERT_TRUE(input.ends.has_value());
  EXPECT_DOUBLE_EQ(input.ends->embedding, 0.3) << "the mean of 2/10 and 16/40";
  EXPECT_DOUBLE_EQ(input.ends->head, 1.5) << "the mean of 20/10 and 40/40";
}

// Device 1 reaches half of its matrix product, so does device 2 in all likelihood.
TEST(BlockSpeeds, ADeviceWithoutABlockReachesTheShareOfTheOthers) {
  const double gflop = block_gflop(two_stages());
  const BlockTimes half{seconds_f(gflop / 50), {}, {}};
  PlacementInput input = input_of({device(1, 100, half), device(2, 40), device(3, 0)});
  PlacedReplica live{.id = ReplicaId(1), .gflops = 10};
  input.live.push_back(live);
  go_by_blocks(input);
  EXPECT_NEAR(input.free[0].gflops, 50, 0.01);
  EXPECT_NEAR(input.free[1].gflops, 20, 0.01);
  EXPECT_EQ(input.free[2].gflops, 0) << "it counts as the mean later";
  EXPECT_NEAR(input.live[0].gflops, 5, 0.01);
}

// Two stages of two layers each; the head takes as long as two blocks more.
TEST(BlockSpeeds, TheForecastIsThatOfTheMeasuredTimes) {
  const BlockTimes times{milliseconds(10), milliseconds(0), milliseconds(20)};
  PlacementInput input = input_of({device(1, 1000, times), device(2, 1000, times)});
  input.spec.swarm.activations = ActivationCodec::kInt8;
  go_by_blocks(input);
  const PlacementDecision decision = decide_placement(input);
  ASSERT_EQ(decision.places.size(), 2u);
  EXPECT_EQ(decision.cut, (std::vector<UnitRange>{{0, 4}, {4, 6}}))
      << "three blocks, and one with the head, which counts as two";
  EXPECT_EQ(decision.forecast.speeds_assumed, 0);
  const auto& spec = input.spec;
  const double tokens = static_cast<double>(spec.train.microbatch * spec.model.context);
  const double microbatch_s = 0.030;  // of the slower stage
  const double steady = tokens / microbatch_s * (1 - decision.forecast.bubble);
  const double step = static_cast<double>(spec.train.batch * spec.model.context) / steady;
  EXPECT_NEAR(decision.forecast.step_s, step, 0.1 * step);
}

TEST(BlockSpeeds, ThePlanCountsDevicesWithoutABlock) {
  const BlockTimes times{milliseconds(10), {}, {}};
  PlacementInput input = input_of({device(1, 100, times), device(2, 100)});
  go_by_blocks(input);
  const PlacementDecision decision = decide_placement(input);
  ASSERT_EQ(decision.places.size(), 2u);
  EXPECT_EQ(decision.forecast.speeds_assumed, 1);
}

TEST(BlockSpeeds, AsksOnlyDevicesThatAreDoneSoon) {
  const JobSpec spec = two_stages();
  EXPECT_TRUE(can_measure_block(spec, device(1, 10)));
  EXPECT_FALSE(can_measure_block(spec, device(1, 0))) << "its trainer is not ready";
  EXPECT_FALSE(can_measure_block(spec, device(1, 0.01))) << "it would take too long";
  FreeDevice small = device(1, 10);
  small.memory = mebibytes(1);
  EXPECT_FALSE(can_measure_block(spec, small));
}

}  // namespace
}  // namespace shoal::coordinator
