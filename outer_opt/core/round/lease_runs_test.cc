#include "outer_opt/core/round/lease_runs.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::outer_opt {
namespace {

TEST(LeaseRuns, AppendedRunsThatFollowEachOtherAreOne) {
  LeaseRuns runs;
  append(runs, {4, 4});
  append(runs, {8, 0});
  append(runs, {8, 2});
  append(runs, {0, 4});
  EXPECT_EQ(runs, (LeaseRuns{{4, 6}, {0, 4}}));
  EXPECT_EQ(count_sequences(runs), 10);
}

TEST(LeaseRuns, TheFirstAreThoseThatAreTrainedFirst) {
  LeaseRuns runs{{20, 4}, {0, 4}};
  EXPECT_EQ(take_first(runs, 6), (LeaseRuns{{20, 4}, {0, 2}}));
  EXPECT_EQ(runs, (LeaseRuns{{2, 2}}));
  EXPECT_EQ(take_first(runs, 9), (LeaseRuns{{2, 2}}));
  EXPECT_TRUE(runs.empty());
}

TEST(LeaseRuns, WhatIsTakenMayBeAnyPartAndMore) {
  EXPECT_EQ(without({{10, 10}, {0, 5}}, {{18, 5}, {12, 2}, {3, 1}}),
            (LeaseRuns{{10, 2}, {14, 4}, {0, 3}, {4, 1}}));
  EXPECT_TRUE(without({{10, 10}}, {{0, 15}, {15, 20}}).empty());
  EXPECT_EQ(without({{10, 10}}, {}), (LeaseRuns{{10, 10}}));
}

std::vector<std::int64_t> listed(const LeaseRuns& runs) {
  std::vector<std::int64_t> all;
  for (const DataLease& run : runs) {
    for (std::int64_t i = 0; i < run.count; ++i) all.push_back(run.first + i);
  }
  return all;
}

LeaseRuns drawn(Prng& prng) {
  std::set<std::int64_t> some;
  for (int i = 0; i < 20; ++i) some.insert(prng.range(0, 40));
  LeaseRuns runs;
  for (const std::int64_t one : some) append(runs, {one, 1});
  prng.shuffle(runs);
  return runs;
}

TEST(LeaseRuns, WithoutIsTheDifferenceInOrder) {
  Prng prng(1);
  for (int i = 0; i < 500; ++i) {
    const LeaseRuns runs = drawn(prng), taken = drawn(prng);
    const auto gone = listed(taken);
    std::vector<std::int64_t> expected = listed(runs);
    std::erase_if(expected, [&](std::int64_t s) {
      return std::find(gone.begin(), gone.end(), s) != gone.end();
    });
    EXPECT_EQ(listed(without(runs, taken)), expected);
  }
}

TEST(LeaseRuns, WhatIsNotALeaseIsToldApart) {
  EXPECT_TRUE(well_formed({}, 4));
  EXPECT_TRUE(well_formed({{8, 4}, {0, 8}}, 4));
  EXPECT_FALSE(well_formed({{8, 3}}, 4)) << "a part of a step";
  EXPECT_TRUE(well_formed({{8, 0}}, 4));
  EXPECT_FALSE(well_formed({{-4, 4}}, 4));
  EXPECT_FALSE(well_formed({{8, 4}, {4, 8}}, 4)) << "twice";
  EXPECT_FALSE(well_formed({{std::int64_t{1} << 62, std::int64_t{1} << 62}}, 4));
  LeaseRuns many;
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(kLeaseRunsMax); ++i) {
    many.push_back({i * 8, 4});
  }
  EXPECT_FALSE(well_formed(many, 4));
}

}  // namespace
}  // namespace shoal::outer_opt
