// What goes first of stored checkpoints, and what never does.
#include "coordinator/core/decisions/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant kNow{1'700'000'000'000'000'000};
constexpr Bytes kGib = mebibytes(1024);

StoredCheckpoint stored(std::uint64_t id, std::uint64_t job) {
  return {.id = CheckpointId(id), .job = JobId(job), .size = kGib};
}

StoredCheckpoint ended(std::uint64_t id, std::uint64_t job, Duration ago) {
  StoredCheckpoint checkpoint = stored(id, job);
  checkpoint.ended_at = kNow + ago * -1;
  return checkpoint;
}

CheckpointDeletion gone(std::uint64_t id, DeletionReason reason) {
  return {CheckpointId(id), reason};
}

TEST(Retention, WithoutARuleNothingGoes) {
  const auto decision =
      decide_retention({.now = kNow, .stored = {stored(1, 1), ended(2, 2, seconds(1'000'000))}});
  EXPECT_THAT(decision.deletions, IsEmpty());
  EXPECT_EQ(decision.kept, kGib + kGib);
  EXPECT_FALSE(decision.over);
  EXPECT_FALSE(decision.again_at);
}

TEST(Retention, NeedsAreNamed) {
  StoredCheckpoint one = stored(1, 1);
  EXPECT_THAT(needs_of(one), IsEmpty());
  one.newest = true, one.verified = true, one.pinned = true, one.begun = {JobId(2)},
  one.loading = true;
  EXPECT_THAT(needs_of(one), ElementsAre(CheckpointNeed::kPinned, CheckpointNeed::kNewestCut,
                                         CheckpointNeed::kVerified, CheckpointNeed::kBase,
                                         CheckpointNeed::kLoading));
  StoredCheckpoint other = ended(2, 2, seconds(1));
  EXPECT_THAT(needs_of(other), IsEmpty());
  other.newest = true;
  EXPECT_THAT(needs_of(other), ElementsAre(CheckpointNeed::kResult));
  other.newest = false, other.final = true;
  EXPECT_THAT(needs_of(other), ElementsAre(CheckpointNeed::kResult));
}

TEST(Retention, OfAnEndedJobTheResultAndThePinnedStay) {
  std::vector<StoredCheckpoint> of_job;
  for (std::uint64_t id = 1; id <= 5; ++id) of_job.push_back(ended(id, 1, seconds(100)));
  of_job[1].pinned = true, of_job[3].final = true, of_job[4].newest = true;
  const auto young = decide_retention({.now = kNow, .stored = of_job, .keep_ended = seconds(101)});
  EXPECT_THAT(young.deletions, IsEmpty());
  EXPECT_EQ(young.again_at, kNow + seconds(1));
  const auto old = decide_retention({.now = kNow, .stored = of_job, .keep_ended = seconds(100)});
  EXPECT_THAT(old.deletions,
              ElementsAre(gone(1, DeletionReason::kEnded), gone(3, DeletionReason::kEnded)));
  EXPECT_FALSE(old.again_at);
}

TEST(Retention, TheBudgetTakesOfEndedJobsFirstAndTheOldestFirst) {
  const std::vector<StoredCheckpoint> all = {stored(1, 1), ended(2, 2, seconds(10)),
                                             ended(3, 3, seconds(20)), stored(4, 1),
                                             ended(5, 3, seconds(20))};
  const auto most = [&](Bytes max) {
    return decide_retention({.now = kNow, .stored = all, .max = max}).deletions;
  };
  EXPECT_THAT(most(kGib * 5), IsEmpty());
  EXPECT_THAT(most(kGib),
              ElementsAre(gone(3, DeletionReason::kBudget), gone(5, DeletionReason::kBudget),
                          gone(2, DeletionReason::kBudget), gone(1, DeletionReason::kBudget)));
  EXPECT_THAT(most(kGib * 4), ElementsAre(gone(3, DeletionReason::kBudget)))
      << "no more than asked";
}

TEST(Retention, WhatIsPendingCountsAgainstTheBudget) {
  const auto decision =
      decide_retention({.now = kNow, .stored = {stored(1, 1)}, .pending = kGib, .max = kGib});
  EXPECT_THAT(decision.deletions, ElementsAre(gone(1, DeletionReason::kBudget)));
  EXPECT_EQ(decision.kept, kGib);
  EXPECT_FALSE(decision.over);
}

TEST(Retention, WhatIsNeededExceedsTheBudget) {
  StoredCheckpoint newest = stored(1, 1), base = stored(2, 2), result = ended(3, 3, seconds(9)),
                   pinned = stored(4, 2);
  newest.newest = true, base.begun = {JobId(9)}, result.final = true, pinned.pinned = true;
  const auto decision = decide_retention({.now = kNow,
                                          .stored = {newest, base, result, pinned},
                                          .max = kGib,
                                          .keep_ended = seconds(1)});
  EXPECT_THAT(decision.deletions, IsEmpty());
  EXPECT_TRUE(decision.over);
  EXPECT_EQ(decision.kept, kGib * 4);
}

}  // namespace
}  // namespace shoal::coordinator
