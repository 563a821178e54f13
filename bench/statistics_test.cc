// Samples whose intervals can be worked out by hand.
#include "bench/statistics.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

namespace shoal::bench {
namespace {

TEST(Statistics, AnIntervalIsStudents) {
  const Interval three = interval_of(std::vector<double>{1, 2, 3});  // deviation 1
  EXPECT_DOUBLE_EQ(three.mean, 2);
  EXPECT_NEAR(three.half, 4.303 / std::sqrt(3), 1e-9);
  EXPECT_EQ(interval_of(std::vector<double>{5, 5, 5}).half, 0);
  EXPECT_TRUE(std::isinf(interval_of(std::vector<double>{7}).half)) << "one run says nothing";
}

TEST(Statistics, BeyondTheTableItStaysOnTheSafeSide) {
  std::vector<double> many(200);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_GT(interval_of(many).half, 1.96 * 57.88 / std::sqrt(200));
}

// Seeds move both by a fifth, and the one is 10 % above the other with each of them.
TEST(Statistics, WhatASeedDoesToBothFallsOut) {
  const Interval excess =
      excess_of(std::vector<double>{1.1, 1.32, 99}, std::vector<double>{1, 1.2});
  EXPECT_NEAR(excess.mean, 10, 1e-9);
  EXPECT_NEAR(excess.half, 0, 1e-9);
}

TEST(Statistics, ATargetIsMetByTheWholeInterval) {
  EXPECT_EQ(verdict_of({1, 0.5}, 2), Verdict::kMet);
  EXPECT_EQ(verdict_of({1, 1.5}, 2), Verdict::kUndecided);
  EXPECT_EQ(verdict_of({2.5, 1}, 2), Verdict::kMissed);
  EXPECT_EQ(verdict_of({std::numeric_limits<double>::quiet_NaN(), 0}, 2), Verdict::kMissed);
}

}  // namespace
}  // namespace shoal::bench
