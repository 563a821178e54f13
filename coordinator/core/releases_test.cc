// How a job leaves its devices, and the cut that it goes back to.
#include "coordinator/core/releases.h"

#include <gmock/gmock.h>

#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/transaction_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(Releases, APauseIsAtOnceBeforeAnythingIsCommitted) {
  Rig queued;
  const JobId id = *queued.submit(long_job());
  queued.input(PauseJob{RequestId{1}, id});
  EXPECT_EQ(queued.job(id).phase, JobPhase::kPaused);
  EXPECT_EQ(queued.job(id).epoch, 0);

  Operated<Rig> gathering;
  const auto a = gathering.join("a");
  const JobId second = *gathering.submit(long_job());
  ASSERT_EQ(gathering.job(second).phase, JobPhase::kGathering);
  ASSERT_TRUE(gathering.pause(second).ok());
  gathering.expect_paused_at(second, 0);
  EXPECT_EQ(gathering.last<Release>(a)->reason, ReleaseReason::kPaused);

  Operated<Rig> warming;
  warming.join("a"), warming.join("b");
  const JobId third = *warming.submit(long_job());
  warming.wait(seconds(3));
  ASSERT_EQ(warming.job(third).phase, JobPhase::kWarming);
  ASSERT_TRUE(warming.pause(third).ok());
  warming.expect_paused_at(third, 0);
}

TEST(Releases, APauseGivesUpAFirstRoundThatIsNotCommitted) {
  for (const bool reducing : {false, true}) {
    Pair rig;
    if (reducing) rig.report_both(1);
    ASSERT_TRUE(rig.pause(rig.id).ok());
    rig.expect_paused_at(rig.id, 0);
    EXPECT_EQ(rig.rounds_.at(rig.key(1)).state, RoundState::kAborted);
    EXPECT_EQ(rig.job(rig.id).next_sequence, 0) << "its sequences are trained later";
    EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 0) << "nothing was lost";
    ASSERT_TRUE(rig.resume(rig.id).ok());
    rig.rep_a = rig.load(rig.a), rig.rep_b = rig.load(rig.b);
    rig.wait(seconds(3));
    EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.key, (RoundKey{rig.id, 1, 1}));
  }
}

TEST(Releases, APauseGoesBackToTheNewestCutWhenTheLastInSyncReplicaDiesWhileItFinalizes) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2);
  rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kTrainerExited, ""});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing) << "the other one writes it";
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  rig.expect_paused_at(rig.id, 1);
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 1);
  EXPECT_EQ(rig.job(rig.id).epoch, 1);
}

TEST(Releases, APipelineThatLostAStageGoesBackToTheNewestCut) {
  Piped rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  rig.commit(2), rig.evaluate(2);  // its checkpoint is on its way
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.say(rig.b,
          ReplicaFailed{rig.last<Assign>(rig.b)->replica, ReplicaFailure::kTrainerExited, ""});
  rig.expect_paused_at(rig.id, 1);
  EXPECT_EQ(rig.last<Release>(rig.a)->reason, ReleaseReason::kPaused);
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 1);
}

// Nothing was committed: the cut is the seed, and what was trained is given up with its epoch.
TEST(Releases, WithoutACheckpointARollBackBeginsWithTheSeed) {
  PairRig rig(small_job());
  State state = rig.state();
  Transaction tx(state, rig.now);
  roll_back(tx, rig.id);
  const JobRecord& job = state.jobs.at(rig.id);
  EXPECT_EQ(job.committed_round, 0);
  EXPECT_EQ(job.epoch, 1);
  EXPECT_EQ(job.next_sequence, 0);
  EXPECT_TRUE(live_replicas(state, rig.id).empty());
  EXPECT_EQ(current_round(state, job), nullptr);
}

TEST(Releases, ARollBackStandsAtTheNewestStoredCut) {
  Pair rig;
  rig.commit(1), rig.evaluate(1);
  const CheckpointId cut = rig.store(rig.id);
  rig.commit(2);
  State state = rig.state();
  Transaction tx(state, rig.now);
  roll_back(tx, rig.id);
  const JobRecord& job = state.jobs.at(rig.id);
  const CheckpointRecord& stored = state.checkpoints.at(cut);
  EXPECT_EQ(job.committed_round, 1);
  EXPECT_EQ(job.committed_step, stored.step);
  EXPECT_EQ(job.next_sequence, stored.next_sequence);
  EXPECT_EQ(job.stages[0].anchor, stored.parts[0].anchor);
  EXPECT_EQ(job.epoch, 1);
}

// All its replicas are placed anew, maybe in stages of another cut.
TEST(Releases, ARollBackForgetsWhatWasNotedOfStages) {
  Pair rig;
  State state = rig.state();
  Transaction tx(state, rig.now);
  JobTimers& timers = state.timers[rig.id];
  timers.left.put({AgentId(1), 0}, {{1, rig.now}});
  timers.look = PlacementReport::Look{.at = rig.now};
  timers.considered = MoveReport{};
  timers.balance_said = "rep_1";
  roll_back(tx, rig.id);
  EXPECT_TRUE(timers.left.empty());
  EXPECT_FALSE(timers.look);
  EXPECT_FALSE(timers.considered);
  EXPECT_EQ(timers.balance_said, "");
}

// An earlier version stored it without its cut, and the job has another number of stages now.
TEST(Releases, ACheckpointOfUnknownPartsIsNotReturnedTo) {
  Pair rig;
  rig.commit(1), rig.evaluate(1);
  const CheckpointId older = rig.store(rig.id);
  State state = rig.state();
  CheckpointRecord& stored = state.checkpoints.at(older);
  stored.parts.push_back(stored.parts.front());
  for (CheckpointPart& part : stored.parts) part.units = {};
  Transaction tx(state, rig.now);
  EXPECT_EQ(checkpoint_of_committed(state, state.jobs.at(rig.id)), nullptr);
  roll_back(tx, rig.id);
  EXPECT_EQ(state.jobs.at(rig.id).committed_round, 0) << "the seed is what is left";
  EXPECT_TRUE(state.checkpoints.contains(older));
}

TEST(Releases, AJobThatEndsLeavesNothing) {
  Pair rig;
  State state = rig.state();
  Transaction tx(state, rig.now);
  finish_job(tx, rig.id, JobPhase::kFailed, JobReason::kTooManyFailures, "twenty");
  EXPECT_TRUE(live_replicas(state, rig.id).empty());
  EXPECT_FALSE(state.timers.contains(rig.id));
  EXPECT_TRUE(state.rounds.empty());
  const auto released = messages<Release>(effects_of(tx));
  ASSERT_EQ(released.size(), 2u);
  EXPECT_EQ(released[0].reason, ReleaseReason::kJobFailed);
}

}  // namespace
}  // namespace shoal::coordinator
