#include "coordinator/core/decisions/compute_watch.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr Instant kStart{1'000'000'000'000};
Instant at(double s) { return kStart + seconds_f(s); }

TEST(ComputeWatch, AFirstStepMayCompile) {
  ComputeWatch watch;
  EXPECT_EQ(watch.limit(Options{}), seconds(600));
  watch.said(at(0), false);
  watch.said(at(300), true);
  EXPECT_EQ(watch.limit(Options{}), seconds(600))
      << "the pause before the first step tells nothing";
}

TEST(ComputeWatch, ShortStepsHaveTheFloor) {
  ComputeWatch watch;
  for (int s = 0; s < 10; ++s) watch.said(at(s), true);
  EXPECT_EQ(watch.limit(Options{}), seconds(60));
}

TEST(ComputeWatch, LongStepsHaveTheirMultiple) {
  ComputeWatch watch;
  for (int step = 0; step < 10; ++step) watch.said(at(step * 40.0), true);
  EXPECT_EQ(watch.usual(), seconds(40));
  EXPECT_EQ(watch.limit(Options{}), seconds(400));
}

TEST(ComputeWatch, ALongPauseCountsAtOnceAndIsForgottenSlowly) {
  ComputeWatch watch;
  for (int s = 0; s < 10; ++s) watch.said(at(s), true);
  watch.said(at(39), true);
  EXPECT_EQ(watch.usual(), seconds(30));
  for (int s = 40; s < 80; ++s) watch.said(at(s), true);
  EXPECT_LT(watch.usual(), seconds(2));
}

TEST(ComputeWatch, WhatWasNotHeardTellsNothing) {
  ComputeWatch watch;
  watch.said(at(0), true);
  watch.said(at(1), true);
  watch.asked = true;
  watch.listen_from(at(500));
  EXPECT_FALSE(watch.asked);
  EXPECT_EQ(watch.last_word(), at(500));
  watch.said(at(510), true);
  EXPECT_EQ(watch.usual(), seconds(1));
}

// The report, the vote and the wait for the others are no pieces of work.
TEST(ComputeWatch, TheTimeBetweenRoundsTellsNothing) {
  ComputeWatch watch;
  watch.said(at(0), true);
  watch.said(at(1), true);
  watch.said(at(2), false);
  watch.said(at(200), true);
  watch.said(at(201), true);
  EXPECT_EQ(watch.usual(), seconds(1));
}

}  // namespace
}  // namespace shoal::coordinator
