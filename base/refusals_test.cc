// Counts of refusals: sums, and what came since.
#include "base/refusals.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(Refusals, WhatCameSinceSurvivesANewBeginning) {
  RefusalCounts before, now;
  before[RefusalReason::kForeign] = 5;
  before[RefusalReason::kLimits] = 7;
  now[RefusalReason::kForeign] = 6;
  now[RefusalReason::kLimits] = 2;  // the process was started again
  const RefusalCounts added = now.since(before);
  EXPECT_EQ(added[RefusalReason::kForeign], 1);
  EXPECT_EQ(added[RefusalReason::kLimits], 2);
  EXPECT_EQ(added[RefusalReason::kMalformed], 0);
  before += added;
  EXPECT_EQ(before.total(), 15);
}

}  // namespace
}  // namespace shoal
