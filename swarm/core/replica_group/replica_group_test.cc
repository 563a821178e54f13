// Which processes are in a replica group, what each computes, and what a loss changes.
#include "swarm/core/replica_group/replica_group.h"

#include <numeric>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::swarm {
namespace {

using State = GroupMemberState;

ReplicaGroup replica_group_of(int size) {
  ReplicaGroup replica_group(size);
  for (int rank = 1; rank < size; ++rank) replica_group.joined(rank);
  return replica_group;
}

TEST(ReplicaGroup, SharesAreWholeMicrobatchesAndCoverTheBatch) {
  for (int size = 1; size <= 5; ++size) {
    for (std::int64_t count = 1; count <= 40; count += 3) {
      for (const std::int64_t microbatch : {1, 2, 8, 64}) {
        ReplicaGroup replica_group = replica_group_of(size);
        std::int64_t next = 100;
        for (const GroupShare& share : replica_group.begin_step(100, count, microbatch)) {
          EXPECT_EQ(share.first, next);
          next += share.count;
          EXPECT_TRUE(share.count % microbatch == 0 || next == 100 + count);
        }
        EXPECT_EQ(next, 100 + count);
      }
    }
  }
}

TEST(ReplicaGroup, SharesAreAsEqualAsMicrobatchesAllow) {
  ReplicaGroup replica_group = replica_group_of(4);
  for (const GroupShare& share : replica_group.begin_step(0, 10, 1)) {
    EXPECT_TRUE(share.count == 2 || share.count == 3);
  }
}

TEST(ReplicaGroup, AStepIsCompleteWhenEverybodyGave) {
  ReplicaGroup replica_group = replica_group_of(3);
  replica_group.begin_step(0, 6, 1);
  replica_group.gave(2);
  replica_group.gave(0);
  EXPECT_FALSE(replica_group.complete());
  replica_group.gave(1);
  EXPECT_TRUE(replica_group.complete());
  replica_group.step_taken();
  EXPECT_FALSE(replica_group.under_way());
  EXPECT_EQ(replica_group.state(2), State::kIdle);
}

TEST(ReplicaGroup, ALossVoidsTheStepAndTheOthersTakeItAgain) {
  ReplicaGroup replica_group = replica_group_of(3);
  const std::int32_t before = replica_group.generation();
  replica_group.begin_step(12, 6, 1);
  replica_group.gave(0);
  replica_group.lost(1);
  EXPECT_EQ(replica_group.generation(), before + 1);
  EXPECT_FALSE(replica_group.under_way());
  EXPECT_EQ(replica_group.members(), (std::vector<int>{0, 2}));
  const auto shares = replica_group.begin_step(12, 6, 1);
  EXPECT_EQ(shares, (std::vector<GroupShare>{{12, 3}, {0, 0}, {15, 3}}));
  replica_group.lost(1);  // known already
  EXPECT_TRUE(replica_group.under_way());
  EXPECT_EQ(replica_group.generation(), before + 1);
}

TEST(ReplicaGroup, WhoNeverCameDisturbsNobody) {
  ReplicaGroup replica_group(3);
  replica_group.joined(2);
  replica_group.begin_step(0, 4, 1);
  const std::int32_t before = replica_group.generation();
  replica_group.lost(1);
  EXPECT_TRUE(replica_group.under_way());
  EXPECT_EQ(replica_group.generation(), before);
}

TEST(ReplicaGroup, ALeaderAloneComputesEverything) {
  ReplicaGroup replica_group = replica_group_of(2);
  replica_group.lost(1);
  EXPECT_EQ(replica_group.begin_step(0, 5, 2)[0], (GroupShare{0, 5}));
  replica_group.gave(0);
  EXPECT_TRUE(replica_group.complete());
}

TEST(ReplicaGroup, DevicesAddWhenAllHaveTheSameLibrary) {
  ReplicaGroup replica_group(3, 22809);
  EXPECT_EQ(replica_group.sum(), GroupSum::kLeader) << "a leader alone";
  replica_group.joined(1, 22809);
  EXPECT_EQ(replica_group.sum(), GroupSum::kDevices);
  replica_group.joined(2, 22700);
  EXPECT_EQ(replica_group.sum(), GroupSum::kLeader);
  replica_group.lost(2);
  EXPECT_EQ(replica_group.sum(), GroupSum::kDevices);
  replica_group.lost(1);
  EXPECT_EQ(replica_group.sum(), GroupSum::kLeader);
  ReplicaGroup without(2);
  without.joined(1);
  EXPECT_EQ(without.sum(), GroupSum::kLeader);
}

TEST(ReplicaGroup, OnDevicesAStepNeedsTheSumEverywhere) {
  ReplicaGroup replica_group(2, 1);
  replica_group.joined(1, 1);
  replica_group.begin_step(0, 6, 1);
  replica_group.gave(0);
  EXPECT_FALSE(replica_group.all_gave());
  replica_group.gave(1);
  EXPECT_TRUE(replica_group.all_gave());
  replica_group.added(1);
  EXPECT_FALSE(replica_group.complete());
  replica_group.added(0);
  EXPECT_TRUE(replica_group.complete());
  replica_group.step_taken();
  EXPECT_EQ(replica_group.state(1), State::kIdle);
}

TEST(ReplicaGroup, ALibraryThatFailsIsLeftAloneUntilTheMembershipChanges) {
  ReplicaGroup replica_group(3, 1);
  replica_group.joined(1, 1);
  replica_group.joined(2, 1);
  const std::int32_t before = replica_group.generation();
  replica_group.begin_step(0, 6, 1);
  for (const int rank : {0, 1, 2}) replica_group.gave(rank);
  replica_group.added(1);
  replica_group.add_failed();
  EXPECT_FALSE(replica_group.under_way()) << "nobody may take the step";
  EXPECT_EQ(replica_group.generation(), before + 1);
  EXPECT_EQ(replica_group.members().size(), 3u);
  EXPECT_EQ(replica_group.sum(), GroupSum::kLeader);
  replica_group.begin_step(0, 6, 1);
  for (const int rank : {0, 1, 2}) replica_group.gave(rank);
  EXPECT_TRUE(replica_group.complete());
  replica_group.step_taken();
  replica_group.lost(2);
  EXPECT_EQ(replica_group.sum(), GroupSum::kDevices) << "it may have been the one that was lost";
}

// Random losses: every step that is taken was computed whole, by those who are in.
TEST(ReplicaGroup, EveryStepThatIsTakenIsWhole) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng prng(seed);
    ReplicaGroup replica_group = replica_group_of(static_cast<int>(prng.range(1, 6)));
    for (int steps = 0; steps < 20;) {
      const auto shares = replica_group.begin_step(steps * 7, 7, prng.range(1, 3));
      std::int64_t given = 0;
      for (const int rank : replica_group.members()) {
        if (rank != 0 && prng.chance(.05)) replica_group.lost(rank);
        if (!replica_group.under_way()) break;
        replica_group.gave(rank);
        given += shares[static_cast<std::size_t>(rank)].count;
      }
      if (!replica_group.complete()) continue;
      ASSERT_EQ(given, 7) << "seed " << seed;
      replica_group.step_taken();
      ++steps;
    }
  }
}

}  // namespace
}  // namespace shoal::swarm
