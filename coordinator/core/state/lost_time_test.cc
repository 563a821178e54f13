#include "coordinator/core/state/lost_time.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

Instant at(std::int64_t s) { return Instant{} + seconds(s); }

TEST(LostTime, ALimitGrowsByWhatWasLostAfterItsStart) {
  LostTime lost;
  EXPECT_EQ(lost.deadline(at(10), seconds(8)), at(18));
  lost.add(at(12), at(42));
  EXPECT_EQ(lost.deadline(at(10), seconds(8)), at(48)) << "six seconds are left after it";
  EXPECT_EQ(lost.deadline(at(20), seconds(8)), at(50)) << "it began inside";
  EXPECT_EQ(lost.deadline(at(42), seconds(8)), at(50)) << "all of it was before";
}

TEST(LostTime, WhatWasOverBeforeTheGapStaysOver) {
  LostTime lost;
  lost.add(at(30), at(60));
  EXPECT_EQ(lost.deadline(at(10), seconds(8)), at(18));
}

TEST(LostTime, GapsAddUpAndAreCountedOnce) {
  LostTime lost;
  lost.add(at(12), at(14));
  lost.add(at(13), at(16));  // only two seconds of it are new
  lost.add(at(15), at(15));
  EXPECT_EQ(lost.deadline(at(10), seconds(8)), at(22));
}

TEST(LostTime, KeepsTheNewest) {
  LostTime lost;
  for (std::int64_t i = 0; i < 100; ++i) lost.add(at(2 * i), at(2 * i + 1));
  EXPECT_EQ(lost.deadline(at(190), seconds(5)), at(200));
}

}  // namespace
}  // namespace shoal::coordinator
