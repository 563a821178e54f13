#include "outer_opt/core/round/clip.h"

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

TEST(Clip, NormsAboveTheMedianBecomeTheMedian) {
  EXPECT_EQ(clip_factors({4, 2}), (std::vector<double>{0.75, 1}));  // the median is 3
  EXPECT_EQ(clip_factors({1, 10, 2}), (std::vector<double>{1, 0.2, 1}));
}

TEST(Clip, TheMedianOfManyIsTheMiddleOne) {
  EXPECT_EQ(median({50, 1, 40, 2, 30}), 30);
  EXPECT_EQ(median({50, 1, 40, 2}), 21);
  EXPECT_EQ(clip_factors({1, 2, 4, 8, 16}), (std::vector<double>{1, 1, 1, 0.5, 0.25}));
}

// Norms are as small as a late pseudo-gradient makes them.
TEST(Clip, SmallNormsAreClippedAsLargeOnes) {
  EXPECT_EQ(clip_factors({0.125, 0.5, 0.125}), (std::vector<double>{1, 0.25, 1}));
}

TEST(Clip, NobodyAndNothingAreLeftAlone) {
  EXPECT_TRUE(clip_factors({}).empty());
  EXPECT_EQ(clip_factors({0, 0, 5}), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(clip_factors({7}), (std::vector<double>{1}));
}

}  // namespace
}  // namespace shoal::outer_opt
