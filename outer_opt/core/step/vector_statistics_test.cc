// By hand: 3, 4 and 12 have the norm 13.
#include "outer_opt/core/step/vector_statistics.h"

#include <limits>

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

TEST(VectorStatistics, NormAndMaximumAreOfTheFiniteValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> values{3, nan, -12, infinite, 4};
  const VectorStatistics statistics = statistics_of(values);
  EXPECT_EQ(statistics.norm, 13);
  EXPECT_EQ(statistics.max_abs, 12);
  EXPECT_EQ(statistics.nonfinite, 2);
}

TEST(VectorStatistics, OfNothingTheyAreZero) {
  const VectorStatistics statistics = statistics_of({});
  EXPECT_EQ(statistics.norm, 0);
  EXPECT_EQ(statistics.max_abs, 0);
  EXPECT_EQ(statistics.nonfinite, 0);
}

TEST(VectorStatistics, ValuesThatAreNotFiniteAreCountedWhereverTheyLie) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  std::vector<float> values(3000, std::numeric_limits<float>::max());
  EXPECT_EQ(count_nonfinite(values), 0);
  values[0] = nan, values[1023] = -infinite, values[1024] = infinite, values[2999] = -nan;
  EXPECT_EQ(count_nonfinite(values), 4);
  EXPECT_EQ(count_nonfinite(values), statistics_of(values).nonfinite);
  EXPECT_EQ(count_nonfinite({}), 0);
}

}  // namespace
}  // namespace shoal::outer_opt
