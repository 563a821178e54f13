#include "coordinator/core/decisions/balance.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

using Counts = std::vector<Steps>;

TEST(Balance, StepsFollowTheSpeedOfTheLastRound) {
  EXPECT_EQ(balanced_steps(Steps(50), {{8, 0}, {8, 0}, {4, 0}, {2, 0}}),
            (Counts{Steps(50), Steps(50), Steps(25), Steps(12)}));
}

TEST(Balance, EverybodyTakesAtLeastOne) {
  EXPECT_EQ(balanced_steps(Steps(10), {{100, 0}, {1, 0}}), (Counts{Steps(10), Steps(1)}));
  EXPECT_EQ(balanced_steps(Steps(1), {{3, 0}, {2, 0}}), (Counts{Steps(1), Steps(1)}));
}

TEST(Balance, BeforeTheFirstRoundDevicesAreCompared) {
  EXPECT_EQ(balanced_steps(Steps(8), {{0, 40}, {0, 20}, {0, 10}}),
            (Counts{Steps(8), Steps(4), Steps(2)}));
}

TEST(Balance, AJoinerIsJudgedByItsDeviceBesideTheOthers) {
  // 10 steps/s of 100, 5 of 50: a device of 25 makes 2.5.
  EXPECT_EQ(balanced_steps(Steps(40), {{10, 100}, {5, 50}, {0, 25}}),
            (Counts{Steps(40), Steps(20), Steps(10)}));
}

// The speed of the second is of a device that says nothing: only the first tells what 100 is worth.
TEST(Balance, DevicesAreJudgedByThoseOfWhichBothIsKnown) {
  EXPECT_EQ(balanced_steps(Steps(40), {{10, 100}, {5, 0}, {0, 25}}),
            (Counts{Steps(40), Steps(20), Steps(10)}));
}

TEST(Balance, WhatIsNotKnownIsTheMean) {
  EXPECT_EQ(balanced_steps(Steps(10), {{0, 0}, {0, 0}}), (Counts{Steps(10), Steps(10)}));
  EXPECT_EQ(balanced_steps(Steps(10), {{4, 0}, {2, 0}, {0, 99}}),  // 99 of what?
            (Counts{Steps(10), Steps(5), Steps(7)}));
}

}  // namespace
}  // namespace shoal::coordinator
