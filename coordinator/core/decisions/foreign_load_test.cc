#include "coordinator/core/decisions/foreign_load.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr Instant kStart{1'000'000'000};

DeviceSample busy(double elsewhere, double stolen = 0) {
  DeviceSample sample{.uuid = "GPU-a", .answer = DeviceAnswer::kWhole};
  sample.use = DeviceUse{.busy = 1, .stolen = stolen};
  sample.use->busy_elsewhere = elsewhere;
  return sample;
}

TEST(ForeignLoad, FirstSample_CountsAtOnceAndHolds) {
  const ForeignLoad load = after_sample(nullptr, busy(0.5, 0.25), kStart);
  EXPECT_DOUBLE_EQ(foreign_share(&load, kStart), 0.75);
  EXPECT_DOUBLE_EQ(foreign_share(&load, kStart + seconds(3600)), 0.75);
  EXPECT_EQ(foreign_share(nullptr, kStart), 0);
}

TEST(ForeignLoad, LaterSamples_AreFollowedWithinAMinute) {
  const ForeignLoad idle = after_sample(nullptr, busy(0), kStart);
  const ForeignLoad load = after_sample(&idle, busy(0.8), kStart + seconds(100));
  EXPECT_EQ(foreign_share(&load, kStart + seconds(100)), 0) << "a burst is none yet";
  EXPECT_NEAR(foreign_share(&load, kStart + seconds(160)), 0.8 * 0.632, 0.001);
  EXPECT_NEAR(foreign_share(&load, kStart + seconds(700)), 0.8, 0.001);
  const ForeignLoad over = after_sample(&load, busy(0), kStart + seconds(700));
  EXPECT_NEAR(foreign_share(&over, kStart + seconds(760)), 0.8 * 0.368, 0.001);
  EXPECT_EQ(foreign_share(&over, kStart + seconds(1000)), 0);
}

TEST(ForeignLoad, DriverThatFallsSilent_IsForgotten) {
  const ForeignLoad load = after_sample(nullptr, busy(0.9), kStart);
  DeviceSample silent = busy(0.9);
  silent.answer = DeviceAnswer::kSilent;
  const ForeignLoad fades = after_sample(&load, silent, kStart + seconds(10));
  EXPECT_DOUBLE_EQ(foreign_share(&fades, kStart + seconds(10)), 0.9);
  EXPECT_EQ(foreign_share(&fades, kStart + seconds(300)), 0);
}

TEST(ForeignLoad, SmallShares_CountForNothing) {
  const ForeignLoad load = after_sample(nullptr, busy(0.05), kStart);
  EXPECT_EQ(foreign_share(&load, kStart), 0);
}

TEST(ForeignLoad, Speed_IsTheRestOfTheTimeAndNeverNothing) {
  EXPECT_EQ(speed_left(0), 1);
  EXPECT_DOUBLE_EQ(speed_left(0.75), 0.25);
  EXPECT_DOUBLE_EQ(speed_left(1), 0.05);
}

}  // namespace
}  // namespace shoal::coordinator
