#include "coordinator/core/decisions/restored_round.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

HeldReplica claim(std::uint64_t replica, StageIndex stage, RoundNumber round, Digest anchor) {
  HeldReplica held{.replica = ReplicaId(replica), .job = JobId(1), .stage = stage};
  held.key = {JobId(1), 0, round};
  held.anchor = anchor;
  held.momentum = {round > 0 ? 1u : 0u, 1};
  held.record.key = held.key;
  held.record.averages = {{static_cast<std::uint64_t>(round), 9}};
  return held;
}

TEST(RestoredRound, TheNewestThatTheHoldersAgreeOn) {
  const std::vector<HeldReplica> claims{claim(1, 0, 33, {3, 3}), claim(2, 0, 33, {3, 3}),
                                        claim(3, 0, 32, {2, 2})};
  const auto round = decide_restored_round(claims, {}, 1, true);
  ASSERT_TRUE(round);
  EXPECT_EQ(round->key.round, 33);
  EXPECT_EQ(round->holders, (std::vector<std::size_t>{0, 1}));
}

TEST(RestoredRound, EveryStageNeedsAHolder) {
  const std::vector<HeldReplica> claims{claim(1, 0, 33, {3, 3}), claim(2, 1, 32, {2, 2}),
                                        claim(3, 0, 32, {4, 4})};
  EXPECT_EQ(decide_restored_round(claims, {}, 2, true)->key.round, 32);
  EXPECT_FALSE(decide_restored_round({claims[0], claims[1]}, {}, 2, true));
}

TEST(RestoredRound, HoldersThatDisagreeDoNotCount) {
  EXPECT_FALSE(
      decide_restored_round({claim(1, 0, 33, {3, 3}), claim(2, 0, 33, {4, 4})}, {}, 1, true));
  EXPECT_TRUE(
      decide_restored_round({claim(1, 0, 33, {3, 3}), claim(2, 0, 33, {4, 4})}, {}, 1, false))
      << "in groups each has an anchor of its own";
  HeldReplica other = claim(2, 0, 33, {3, 3});
  other.record.next_sequence = 7;  // another history with the same number
  EXPECT_FALSE(decide_restored_round({claim(1, 0, 33, {3, 3}), other}, {}, 1, true));
  const HeldReplica older = claim(3, 0, 32, {2, 2});
  EXPECT_EQ(decide_restored_round({claim(1, 0, 33, {3, 3}), other, older}, {}, 1, true)->key.round,
            32);
}

TEST(RestoredRound, WhoContradictsTheDatabaseIsPassedOver) {
  const std::vector<HeldReplica> claims{claim(1, 0, 33, {3, 3}), claim(2, 0, 33, {4, 4})};
  const KnownCommit known{{JobId(1), 0, 33}, {{4, 4}}};
  const auto round = decide_restored_round(claims, {known}, 1, true);
  ASSERT_TRUE(round);
  EXPECT_EQ(round->holders, (std::vector<std::size_t>{1}));
  const KnownCommit older{{JobId(1), 0, 32}, {{4, 4}}};
  EXPECT_FALSE(decide_restored_round(claims, {older}, 1, true)) << "it says nothing of round 33";
  const KnownCommit unsettled{{JobId(1), 0, 33}, {{}}};
  EXPECT_FALSE(decide_restored_round(claims, {unsettled}, 1, true));
}

TEST(RestoredRound, AStageThatTheJobDoesNotHaveIsNotAgreedOn) {
  EXPECT_FALSE(
      decide_restored_round({claim(1, 0, 33, {3, 3}), claim(2, 5, 33, {3, 3})}, {}, 1, true));
}

TEST(RestoredRound, TheCutIsThatOfTheHolders) {
  std::vector<HeldReplica> claims{claim(1, 0, 33, {3, 3}), claim(2, 1, 33, {4, 4}),
                                  claim(3, 2, 33, {5, 5})};
  for (HeldReplica& held : claims) held.cut = {{0, 1}, {1, 3}, {3, 4}};
  const auto round = decide_restored_round(claims, {}, 2, true);
  ASSERT_TRUE(round) << "the job had two stages when the backup was made";
  EXPECT_EQ(round->holders, (std::vector<std::size_t>{0, 1, 2}));
  claims[2].cut = {{0, 1}, {1, 2}, {2, 4}};
  EXPECT_FALSE(decide_restored_round(claims, {}, 2, true)) << "no round has two cuts";
}

TEST(RestoredRound, InitialParametersAreNoCommit) {
  EXPECT_FALSE(decide_restored_round({claim(1, 0, 0, {3, 3})}, {}, 1, true));
  EXPECT_FALSE(decide_restored_round({}, {}, 1, true));
}

}  // namespace
}  // namespace shoal::coordinator
