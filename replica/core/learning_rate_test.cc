// Hand-calculated points of the warm-up and the cosine.
#include "replica/core/learning_rate.h"

#include <gtest/gtest.h>

namespace shoal::replica {
namespace {

TrainSpec spec_of(Schedule schedule) {
  TrainSpec spec;
  spec.steps = Steps(110);
  spec.warmup = Steps(10);
  spec.lr = 1.0;
  spec.min_lr = 0.2;
  spec.schedule = schedule;
  return spec;
}

TEST(Schedule, WarmsUpLinearly) {
  const TrainSpec spec = spec_of(Schedule::kCosine);
  EXPECT_DOUBLE_EQ(learning_rate(spec, Steps(0)), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(spec, Steps(4)), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(spec, Steps(9)), 1.0);
}

TEST(Schedule, CosineFallsToTheMinimumAndStays) {
  const TrainSpec spec = spec_of(Schedule::kCosine);
  EXPECT_DOUBLE_EQ(learning_rate(spec, Steps(10)), 1.0);
  EXPECT_NEAR(learning_rate(spec, Steps(60)), 0.6, 1e-12);  // half-way
  EXPECT_NEAR(learning_rate(spec, Steps(110)), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(spec, Steps(500)), 0.2, 1e-12);
}

TEST(Schedule, ConstantStays) {
  const TrainSpec spec = spec_of(Schedule::kConstant);
  EXPECT_DOUBLE_EQ(learning_rate(spec, Steps(10)), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(spec, Steps(109)), 1.0);
}

TEST(Schedule, NoWarmup) {
  TrainSpec spec = spec_of(Schedule::kCosine);
  spec.warmup = Steps(0);
  EXPECT_DOUBLE_EQ(learning_rate(spec, Steps(0)), 1.0);
}

}  // namespace
}  // namespace shoal::replica
