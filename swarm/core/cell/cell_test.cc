// Who is in a cell, what each computes, and what a loss changes.
#include "swarm/core/cell/cell.h"

#include <numeric>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::swarm {
namespace {

using State = CellMemberState;

Cell cell_of(int size) {
  Cell cell(size);
  for (int rank = 1; rank < size; ++rank) cell.joined(rank);
  return cell;
}

TEST(Cell, SharesAreWholeMicrobatchesAndCoverTheBatch) {
  for (int size = 1; size <= 5; ++size) {
    for (std::int64_t count = 1; count <= 40; count += 3) {
      for (const std::int64_t microbatch : {1, 2, 8, 64}) {
        Cell cell = cell_of(size);
        std::int64_t next = 100;
        for (const CellShare& share : cell.begin_step(100, count, microbatch)) {
          EXPECT_EQ(share.first, next);
          next += share.count;
          EXPECT_TRUE(share.count % microbatch == 0 || next == 100 + count);
        }
        EXPECT_EQ(next, 100 + count);
      }
    }
  }
}

TEST(Cell, SharesAreAsEqualAsMicrobatchesAllow) {
  Cell cell = cell_of(4);
  for (const CellShare& share : cell.begin_step(0, 10, 1)) {
    EXPECT_TRUE(share.count == 2 || share.count == 3);
  }
}

TEST(Cell, AStepIsCompleteWhenEverybodyGave) {
  Cell cell = cell_of(3);
  cell.begin_step(0, 6, 1);
  cell.gave(2);
  cell.gave(0);
  EXPECT_FALSE(cell.complete());
  cell.gave(1);
  EXPECT_TRUE(cell.complete());
  cell.step_taken();
  EXPECT_FALSE(cell.under_way());
  EXPECT_EQ(cell.state(2), State::kIdle);
}

TEST(Cell, ALossVoidsTheStepAndTheOthersTakeItAgain) {
  Cell cell = cell_of(3);
  const std::int32_t before = cell.generation();
  cell.begin_step(12, 6, 1);
  cell.gave(0);
  cell.lost(1);
  EXPECT_EQ(cell.generation(), before + 1);
  EXPECT_FALSE(cell.under_way());
  EXPECT_EQ(cell.members(), (std::vector<int>{0, 2}));
  const auto shares = cell.begin_step(12, 6, 1);
  EXPECT_EQ(shares, (std::vector<CellShare>{{12, 3}, {0, 0}, {15, 3}}));
  cell.lost(1);  // known already
  EXPECT_TRUE(cell.under_way());
  EXPECT_EQ(cell.generation(), before + 1);
}

TEST(Cell, WhoNeverCameDisturbsNobody) {
  Cell cell(3);
  cell.joined(2);
  cell.begin_step(0, 4, 1);
  const std::int32_t before = cell.generation();
  cell.lost(1);
  EXPECT_TRUE(cell.under_way());
  EXPECT_EQ(cell.generation(), before);
}

TEST(Cell, ALeaderAloneComputesEverything) {
  Cell cell = cell_of(2);
  cell.lost(1);
  EXPECT_EQ(cell.begin_step(0, 5, 2)[0], (CellShare{0, 5}));
  cell.gave(0);
  EXPECT_TRUE(cell.complete());
}

TEST(Cell, DevicesAddWhenAllHaveTheSameLibrary) {
  Cell cell(3, 22809);
  EXPECT_EQ(cell.sum(), CellSum::kLeader) << "a leader alone";
  cell.joined(1, 22809);
  EXPECT_EQ(cell.sum(), CellSum::kDevices);
  cell.joined(2, 22700);
  EXPECT_EQ(cell.sum(), CellSum::kLeader);
  cell.lost(2);
  EXPECT_EQ(cell.sum(), CellSum::kDevices);
  cell.lost(1);
  EXPECT_EQ(cell.sum(), CellSum::kLeader);
  Cell without(2);
  without.joined(1);
  EXPECT_EQ(without.sum(), CellSum::kLeader);
}

TEST(Cell, OnDevicesAStepNeedsTheSumEverywhere) {
  Cell cell(2, 1);
  cell.joined(1, 1);
  cell.begin_step(0, 6, 1);
  cell.gave(0);
  EXPECT_FALSE(cell.all_gave());
  cell.gave(1);
  EXPECT_TRUE(cell.all_gave());
  cell.added(1);
  EXPECT_FALSE(cell.complete());
  cell.added(0);
  EXPECT_TRUE(cell.complete());
  cell.step_taken();
  EXPECT_EQ(cell.state(1), State::kIdle);
}

TEST(Cell, ALibraryThatFailsIsLeftAloneUntilTheMembershipChanges) {
  Cell cell(3, 1);
  cell.joined(1, 1);
  cell.joined(2, 1);
  const std::int32_t before = cell.generation();
  cell.begin_step(0, 6, 1);
  for (const int rank : {0, 1, 2}) cell.gave(rank);
  cell.added(1);
  cell.add_failed();
  EXPECT_FALSE(cell.under_way()) << "nobody may take the step";
  EXPECT_EQ(cell.generation(), before + 1);
  EXPECT_EQ(cell.members().size(), 3u);
  EXPECT_EQ(cell.sum(), CellSum::kLeader);
  cell.begin_step(0, 6, 1);
  for (const int rank : {0, 1, 2}) cell.gave(rank);
  EXPECT_TRUE(cell.complete());
  cell.step_taken();
  cell.lost(2);
  EXPECT_EQ(cell.sum(), CellSum::kDevices) << "it may have been the one that was lost";
}

// Random losses: every step that is taken was computed whole, by those who are in.
TEST(Cell, EveryStepThatIsTakenIsWhole) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng prng(seed);
    Cell cell = cell_of(static_cast<int>(prng.range(1, 6)));
    for (int steps = 0; steps < 20;) {
      const auto shares = cell.begin_step(steps * 7, 7, prng.range(1, 3));
      std::int64_t given = 0;
      for (const int rank : cell.members()) {
        if (rank != 0 && prng.chance(.05)) cell.lost(rank);
        if (!cell.under_way()) break;
        cell.gave(rank);
        given += shares[static_cast<std::size_t>(rank)].count;
      }
      if (!cell.complete()) continue;
      ASSERT_EQ(given, 7) << "seed " << seed;
      cell.step_taken();
      ++steps;
    }
  }
}

}  // namespace
}  // namespace shoal::swarm
