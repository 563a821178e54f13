// The partition of the vector among the members.
#include "outer_opt/core/round/round.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal {
namespace {

std::vector<std::int64_t> parts(std::int64_t values, const std::vector<double>& shares) {
  ReducePlan plan;
  plan.value_count = values;
  plan.members.resize(shares.size());
  assign_parts(plan, shares);
  std::vector<std::int64_t> counts;
  std::int64_t at = 0;
  for (const ReduceMember& member : plan.members) {
    EXPECT_EQ(member.part_first, at);
    at += member.part_count;
    counts.push_back(member.part_count);
  }
  EXPECT_EQ(at, values);
  return counts;
}

using Counts = std::vector<std::int64_t>;

TEST(AssignParts, EqualSharesGiveTheOddValuesToTheFirst) {
  EXPECT_EQ(parts(10, {1, 1, 1, 1}), (Counts{3, 3, 2, 2}));
  EXPECT_EQ(parts(8, {1, 1, 1, 1}), (Counts{2, 2, 2, 2}));
}

TEST(AssignParts, FollowsTheShares) { EXPECT_EQ(parts(100, {1, 2, 7}), (Counts{10, 20, 70})); }

TEST(AssignParts, LargestRemainderFirst) {
  EXPECT_EQ(parts(10, {0.14, 0.26, 0.6}), (Counts{1, 3, 6}));  // 1.4, 2.6, 6.0
}

TEST(AssignParts, NoShareNoPart) {
  EXPECT_EQ(parts(7, {0, 1, 0}), (Counts{0, 7, 0}));
  EXPECT_EQ(parts(2, {0, 1, 1, 1}), (Counts{0, 1, 1, 0}));
}

TEST(AssignParts, FewerValuesThanMembers) { EXPECT_EQ(parts(0, {1, 1}), (Counts{0, 0})); }

// 2^62 - 200 is 2^62 as a double: what rounding gave too much is taken back, member after member.
TEST(AssignParts, RoundingGivesNothingThatIsNotThere) {
  const std::int64_t values = (std::int64_t{1} << 62) - 200;
  const Counts counts = parts(values, {1, 0, 1});
  EXPECT_EQ(counts[0], values / 2);
  EXPECT_EQ(counts[1], 0);
  EXPECT_EQ(counts[2], values / 2);
}

TEST(AssignParts, AlwaysCovers) {
  Prng prng(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> shares(1 + prng.below(9));
    for (double& share : shares) share = prng.chance(0.2) ? 0 : prng.unit() * 1e9;
    shares[prng.below(shares.size())] = 1;
    const Counts counts = parts(prng.range(0, std::int64_t{1} << prng.range(0, 52)), shares);
    for (std::size_t m = 0; m < shares.size(); ++m) {
      EXPECT_GE(counts[m], 0);
      EXPECT_TRUE(shares[m] > 0 || counts[m] == 0);
    }
  }
}

}  // namespace
}  // namespace shoal
