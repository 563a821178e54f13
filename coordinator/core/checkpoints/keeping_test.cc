// Which checkpoints go by themselves, and which never do.
#include "coordinator/core/checkpoints/keeping.h"

#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A job that has stored as many rounds.
struct Stored : Pair {
  explicit Stored(RoundNumber rounds) {
    for (RoundNumber round = 1; round <= rounds; ++round) {
      commit(round), evaluate(round);
      all.push_back(store(id));
    }
  }
  void pin(CheckpointId checkpoint) {
    input(CommandCheckpoint{RequestId{9}, state().checkpoints.at(checkpoint), CheckpointVerb::kPin,
                            false});
    ASSERT_TRUE(replies.back().result.ok());
  }
  std::vector<CheckpointId> there() const {
    std::vector<CheckpointId> ids;
    for (const auto& [key, checkpoint] : state().checkpoints) ids.push_back(key);
    return ids;
  }
  std::vector<CheckpointId> all;
};

TEST(Keeping, APinnedOneIsKeptBesideTheNewest) {
  Stored rig(2);
  rig.pin(rig.all[0]);
  for (RoundNumber round = 3; round <= 6; ++round) {
    rig.commit(round), rig.evaluate(round);
    rig.all.push_back(rig.store(rig.id));
  }
  EXPECT_THAT(rig.there(), ElementsAre(rig.all[0], rig.all[3], rig.all[4], rig.all[5]));
}

// What is newer was never loaded: nothing proves that it can be.
TEST(Keeping, TheNewestThatWasLoadedIsKeptUntilANewerOneIs) {
  Stored rig(1);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2);
  rig.all.push_back(rig.store(rig.id));
  ASSERT_TRUE(rig.resume(rig.id).ok());
  rig.load_again();
  const CheckpointId loaded = rig.all.back();
  EXPECT_GT(rig.state().checkpoints.at(loaded).verified_at, Instant());
  EXPECT_EQ(rig.state().checkpoints.at(rig.all[0]).verified_at, Instant());
  for (RoundNumber round = 3; round <= 7; ++round) {
    rig.commit(round), rig.evaluate(round);
    rig.all.push_back(rig.store(rig.id));
  }
  EXPECT_THAT(rig.there(), ElementsAre(loaded, rig.all[4], rig.all[5], rig.all[6]));
  rig.options.checkpoints_max = Bytes(1);
  rig.restart();
  EXPECT_THAT(rig.there(), ElementsAre(loaded, rig.all[6])) << "the budget spares it, too";
}

TEST(Keeping, TheBudgetTakesTheOldestAndNeverTheNewest) {
  Stored rig(3);
  rig.options.checkpoints_max = Bytes(9);  // of 4 each
  rig.restart();
  EXPECT_THAT(rig.there(), ElementsAre(rig.all[1], rig.all[2]));
  EXPECT_THAT(rig.deleted, ElementsAre(rig.all[0]));
  EXPECT_EQ(rig.count_events(event_kind::kCheckpointsOverBudget), 0);
  rig.options.checkpoints_max = Bytes(3);
  rig.restart();
  EXPECT_THAT(rig.there(), ElementsAre(rig.all[2])) << "it is all that the job could go back to";
  EXPECT_EQ(rig.count_events(event_kind::kCheckpointsOverBudget), 1);
  rig.pin(rig.all[2]);
  EXPECT_EQ(rig.count_events(event_kind::kCheckpointsOverBudget), 1) << "told once";
}

// A backup has the job as it was before it went on: newer checkpoints are found on the disk.
TEST(Keeping, CheckpointThatAPausedJobStandsAtIsNeededBesideNewerOnes) {
  Stored rig(1);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2);
  const CheckpointId stands_at = rig.store(rig.id);
  State state = rig.state();
  ASSERT_EQ(state.jobs.at(rig.id).phase, JobPhase::kPaused);
  CheckpointRecord newer = state.checkpoints.at(stands_at);
  newer.id = CheckpointId(99);
  newer.key.round += 2;
  state.checkpoints.put(newer.id, newer);
  EXPECT_TRUE(facts_of(state, state.checkpoints.at(stands_at)).newest);
  EXPECT_TRUE(facts_of(state, newer).newest);
  EXPECT_FALSE(facts_of(state, state.checkpoints.at(rig.all[0])).newest);
}

TEST(Keeping, ThePinnedAndTheBaseOfAnotherJobExceedTheBudget) {
  Stored rig(3);
  rig.pin(rig.all[0]);
  JobSpec next = small_job("next");
  next.model.init = to_string(rig.all[1]);
  ASSERT_TRUE(rig.submit(next).ok());
  rig.options.checkpoints_max = Bytes(1);
  rig.restart();
  EXPECT_THAT(rig.there(), ElementsAre(rig.all[0], rig.all[1], rig.all[2]));
  EXPECT_EQ(rig.count_events(event_kind::kCheckpointsOverBudget), 1);
}

TEST(Keeping, AnEndedJobKeepsItsNewestWhenItsTimeIsOver) {
  Stored rig(3);
  rig.options.keep_ended = seconds(100);
  rig.restart();
  rig.input(CancelJob{RequestId{9}, rig.id});
  rig.wait(seconds(99));
  EXPECT_EQ(rig.there().size(), 3u);
  rig.wait(seconds(1));
  EXPECT_THAT(rig.there(), ElementsAre(rig.all[2]));
  rig.restart();
  rig.wait(seconds(1000));
  EXPECT_THAT(rig.there(), ElementsAre(rig.all[2]));
}

TEST(Keeping, WithoutARuleNothingIsLookedThrough) {
  Stored rig(3);
  rig.input(CancelJob{RequestId{9}, rig.id});
  EXPECT_FALSE(rig.state().next_retention);
  rig.wait(seconds(1000));
  EXPECT_EQ(rig.there().size(), 3u);
  EXPECT_THAT(rig.deleted, IsEmpty());
}

}  // namespace
}  // namespace shoal::coordinator
