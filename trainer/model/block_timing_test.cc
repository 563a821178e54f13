#include "trainer/model/block_timing.h"

#include <gtest/gtest.h>

namespace shoal::trainer {
namespace {

BlockShape small(ModelFamily family = ModelFamily::kLlama) {
  JobSpec spec;
  spec.model = {
      .family = family, .layers = 2, .hidden = 32, .heads = 2, .context = 16, .vocab = 256};
  spec.train.batch = 4;
  spec.train.microbatch = 4;
  return block_shape(spec);
}

BlockTimes timed(const BlockShape& shape, double speed = 1) {
  BlockTimes times;
  const MaybeFailure failure = time_block(shape, {.speed = speed}, times);
  EXPECT_FALSE(failure.has_value()) << failure->detail;
  return times;
}

TEST(BlockTiming, EveryPartTakesTime) {
  for (const ModelFamily family : {ModelFamily::kLlama, ModelFamily::kGpt2}) {
    for (const Recompute recompute : {Recompute::kKeep, Recompute::kRecompute}) {
      BlockShape shape = small(family);
      shape.recompute = recompute;
      const BlockTimes times = timed(shape);
      for (const Duration part : {times.block, times.embedding, times.head}) {
        EXPECT_GT(part, Duration());
        EXPECT_LT(part, seconds(1));
      }
    }
  }
}

TEST(BlockTiming, ADeviceThatIsSlowedDownIsAsSlowHere) {
  const BlockTimes fast = timed(small()), slow = timed(small(), 0.1);
  EXPECT_GT(slow.block.seconds(), 3 * fast.block.seconds());
}

TEST(BlockTiming, TimeGrowsWithTheMicrobatch) {
  BlockShape large = small();
  large.microbatch = 64;
  large.context = 64;
  EXPECT_GT(timed(large).block, timed(small()).block);
}

TEST(BlockTiming, RefusesAShapeThatTheDeviceCannotCompute) {
  BlockShape shape = small();
  shape.precision = Precision::kBf16;
  BlockTimes times;
  const MaybeFailure failure = time_block(shape, {}, times);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ReplicaFailure::kModelDoesNotFit);
  shape = small();
  shape.heads = 0;
  EXPECT_TRUE(time_block(shape, {}, times).has_value());
}

}  // namespace
}  // namespace shoal::trainer
