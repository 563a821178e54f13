#include "messages/refusals.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(Refusals, TravelAsWhatHasOccurred) {
  RefusalCounts counts;
  EXPECT_TRUE(to_list(counts).empty());
  counts[RefusalReason::kForeign] = 3;
  counts[RefusalReason::kOtherMember] = 1;
  EXPECT_EQ(to_list(counts).size(), 2U);
  EXPECT_EQ(to_counts(to_list(counts)), counts);
}

}  // namespace
}  // namespace shoal
