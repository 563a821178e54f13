// Which members are in which group, and the step of a group on small numbers. Whole rounds are in
// group_rounds_test.cc.
#include "outer_opt/core/round/groups.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

void expect_partition(const std::vector<Group>& groups, std::size_t members) {
  std::set<std::size_t> seen;
  for (const Group& group : groups) {
    EXPECT_FALSE(group.empty());
    EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
    for (const std::size_t member : group) EXPECT_TRUE(seen.insert(member).second);
  }
  EXPECT_EQ(seen.size(), members);
  EXPECT_TRUE(seen.empty() || *seen.rbegin() == members - 1);
}

TEST(Moshpit, GroupsAreRowsAndColumns) {
  EXPECT_EQ(moshpit_groups(4, 0), (std::vector<Group>{{0, 1}, {2, 3}}));
  EXPECT_EQ(moshpit_groups(4, 1), (std::vector<Group>{{0, 2}, {1, 3}}));
  EXPECT_EQ(moshpit_groups(5, 0), (std::vector<Group>{{0, 1, 2}, {3, 4}}));
  EXPECT_EQ(moshpit_groups(5, 1), (std::vector<Group>{{0, 3}, {1, 4}, {2}}));
  for (std::size_t n = 0; n < 40; ++n) {
    for (RoundNumber round = 0; round < 2; ++round) expect_partition(moshpit_groups(n, round), n);
    for (RoundNumber round = 2; round < 9; ++round) {
      EXPECT_EQ(moshpit_groups(n, round), moshpit_groups(n, round % 2)) << "by turns";
    }
  }
}

TEST(Gossip, PairsFollowFromSeedAndRound) {
  for (std::size_t n = 0; n < 20; ++n) {
    const auto groups = gossip_groups(n, 7, 3);
    expect_partition(groups, n);
    EXPECT_EQ(groups.size(), (n + 1) / 2);
    EXPECT_TRUE(std::is_sorted(groups.begin(), groups.end())) << "by their first member";
    EXPECT_EQ(groups, gossip_groups(n, 7, 3));
  }
  EXPECT_NE(gossip_groups(16, 7, 3), gossip_groups(16, 7, 4));
  EXPECT_NE(gossip_groups(16, 7, 3), gossip_groups(16, 8, 3));
}

TEST(Groups, FollowFromTheJob) {
  JobSpec spec;
  spec.train.seed = 7;
  EXPECT_FALSE(averages_in_groups(spec.sync));
  spec.sync.topology = Topology::kMoshpit;
  EXPECT_TRUE(averages_in_groups(spec.sync));
  EXPECT_EQ(groups_of(spec, 9, 3), moshpit_groups(9, 3));
  spec.sync.topology = Topology::kGossip;
  EXPECT_TRUE(averages_in_groups(spec.sync));
  EXPECT_EQ(groups_of(spec, 9, 3), gossip_groups(9, 7, 3));
}

// lr 0.5, momentum 0.5, pull 0.25; one is at 3 with delta 1, the other at -1; they move by 2 and 1.
TEST(GroupStep, IsNoLoCosRule) {
  const GroupStep step{.lr = 0.5, .momentum = 0.5, .pull = 0.25};
  std::vector<float> delta{1}, anchor{3}, mine{2}, other{1};
  make_group_input(step, anchor, mine);
  make_group_input(step, std::vector<float>{-1}, other);
  EXPECT_EQ(mine[0], 0.25f * 3 - 0.5f * 2);
  EXPECT_EQ(other[0], 0.25f * -1 - 0.5f * 1);
  group_step(step, std::vector<float>{(mine[0] + other[0]) / 2}, delta, anchor);
  EXPECT_EQ(delta[0], 0.5f * 1 - 0.5f * 1.5f - 0.25f * (3 - 1));  // mean move 1.5, mean anchor 1
  EXPECT_EQ(anchor[0], 3 + delta[0]);
}

// Two steps in a row: the second keeps half of what the first one moved.
TEST(GroupStep, DeltaIsCarriedFromStepToStep) {
  const GroupStep step{.lr = 1, .momentum = 0.5, .pull = 1};
  std::vector<float> delta{0}, anchor{10};
  group_step(step, std::vector<float>{6}, delta, anchor);  // the mean of x says: go to 6
  EXPECT_EQ(delta[0], -4);
  EXPECT_EQ(anchor[0], 6);
  group_step(step, std::vector<float>{6}, delta, anchor);  // nothing new: the momentum continues
  EXPECT_EQ(delta[0], -2);
  EXPECT_EQ(anchor[0], 4);
}

TEST(GroupStep, ComesFromTheJobAndTheLearningRateOfTheRound) {
  const SyncSpec sync{.topology = Topology::kMoshpit, .outer = {0.7, 0.25}};
  const GroupStep step = group_step_for(sync, 0.5);
  EXPECT_EQ(step.lr, 0.5);
  EXPECT_EQ(step.momentum, 0.25);
  EXPECT_EQ(step.pull, 1) << "members of a group come together at once";
}

}  // namespace
}  // namespace shoal::outer_opt
