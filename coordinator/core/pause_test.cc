// Pause and resume: what is finished first, what is kept, who is released, and from where a job
// goes on. Played by hand; whole clusters that pause are in tests/scenarios and the campaigns.
#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/round_facts.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(Pause, FinishesTheRoundThatIsOpenAndOpensNoOther) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(rig.id).desired, JobDesired::kPause);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kPausing);
  rig.commit(2);
  EXPECT_EQ(rig.job(rig.id).committed_step, Steps(20)) << "its inner steps count";
  EXPECT_EQ(rig.job(rig.id).committed_tokens, Tokens(4 * 1280));
  EXPECT_TRUE(rig.last<ToReplica<CommitRound>>(rig.a)->body.last);
  EXPECT_FALSE(rig.state().rounds.contains(rig.key(3)));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kPausing);
}

TEST(Pause, KeepsTheCommittedStateBeforeItLetsGo) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2);
  const auto asked = rig.last<ToReplica<WriteCheckpoint>>(rig.a)->body;
  EXPECT_EQ(asked.key, rig.key(2));
  rig.evaluate(2);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing) << "it is not stored yet";
  EXPECT_FALSE(rig.last<Release>(rig.a));
  EXPECT_EQ(rig.store(rig.id), asked.checkpoint) << "it is asked for once";
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.last<Release>(rig.a)->reason, ReleaseReason::kPaused);
  EXPECT_EQ(rig.last<Release>(rig.b)->reason, ReleaseReason::kPaused);
  EXPECT_FALSE(rig.state().checkpoints.at(asked.checkpoint).final) << "kept like any other";
  EXPECT_DOUBLE_EQ(rig.job(rig.id).validation_loss, 2.0);
}

// Then what its replicas hold is the only copy.
TEST(Pause, StoresWhatADamagedCheckpointHadBeforeItLetsGo) {
  Pair rig;
  rig.pause_after_two();
  ASSERT_TRUE(rig.resume(rig.id).ok());
  for (int i = 0; i < 4; ++i) {
    const ReplicaId loading = rig.last<Assign>(rig.b)->replica;
    rig.say(rig.b, ReplicaFailed{loading, ReplicaFailure::kDigestMismatch, "its hash is wrong"});
    rig.stay(seconds(6));
  }
  ASSERT_FALSE(rig.state().checkpoints.contains(rig.checkpoint));
  rig.load_what_is_told(rig.a);  // it had fetched the files before they were damaged
  ASSERT_TRUE(rig.pause(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  EXPECT_GT(rig.newest(rig.id), rig.checkpoint);
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
}

// Each failure without a commit doubles the rest of the device: not twenty failures in seconds.
TEST(Pause, ASourceThatCannotBeLoadedIsTriedEverMoreRarely) {
  Pair rig;
  rig.pause_after_two();
  ASSERT_TRUE(rig.resume(rig.id).ok());
  ReplicaId before;
  int failures = 0;
  for (int i = 0; i < 15; ++i) {
    const ReplicaId loading = rig.last<Assign>(rig.b)->replica;
    if (loading != before) {
      rig.say(rig.b, ReplicaFailed{loading, ReplicaFailure::kInternal, "it cannot be opened"});
      ++failures;
    }
    before = loading;
    rig.stay(seconds(1));
  }
  EXPECT_GE(failures, 2);
  EXPECT_LE(failures, 4) << "after 2, 4, 8 seconds";
}

// The last one to hold the committed state is gone; who was loading from it may have it.
TEST(Pause, WaitsForOneThatLoadsWhatNobodyElseHolds) {
  for (const bool loads : {false, true}) {
    JobSpec spec = long_job();
    spec.checkpoint.every_rounds = 0;
    Pair rig(spec);
    rig.commit(1), rig.evaluate(1);
    rig.say(rig.b, Goodbye{"stopped"});
    const ConnectionId c = rig.join("c");
    const Assign assign = rig.last<Assign>(c).value();
    ASSERT_EQ(assign.source.kind, SourceKind::kPeer);
    rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kTrainerExited, ""});
    ASSERT_TRUE(rig.pause(rig.id).ok());
    EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
    EXPECT_TRUE(is_live(rig.state(), assign.replica));
    if (loads) {
      rig.load_what_is_told(c);
      rig.store(rig.id);
    } else {
      rig.say(c, ReplicaFailed{assign.replica, ReplicaFailure::kSourceLost, ""});
    }
    rig.expect_paused_at(rig.id, loads ? 1 : 0);
  }
}

TEST(Pause, AsksForACheckpointWhereTheJobWritesNone) {
  JobSpec spec = long_job();
  spec.checkpoint.every_rounds = 0;
  Pair rig(spec);
  rig.commit(1), rig.evaluate(1);
  EXPECT_THAT(rig.state().checkpoints, testing::SizeIs(0));
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2);
  const CheckpointId first = rig.newest(rig.id);
  rig.input(CheckpointUploadFailed{first, 0, "disk full"});
  rig.input(CheckpointUploadFailed{first, 0, "disk full"});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing) << "asked for until one is stored";
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kCheckpointFailing);
  rig.stay(seconds(10));
  EXPECT_GT(rig.newest(rig.id), first);
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
}

TEST(Pause, WaitsForTheEvaluationOfTheLastRound) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2);
  rig.store(rig.id);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  rig.evaluate(2);
  rig.expect_paused_at(rig.id, 2);
}

TEST(Pause, LeavesTheDevicesToOthers) {
  Pair rig;
  const JobId other = *rig.submit(small_job("other"));
  EXPECT_EQ(rig.job(other).phase, JobPhase::kQueued);
  rig.pause_after_two();
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.last<Assign>(rig.a)->job, other);
  EXPECT_EQ(rig.last<Assign>(rig.b)->job, other);
  EXPECT_EQ(rig.submit(long_job()).error().code, Code::kConflict) << "it keeps its name";
}

TEST(Pause, WaitsForNothingHoweverLong) {
  Pair rig;
  rig.pause_after_two();
  const JobRecord before = rig.job(rig.id);
  rig.stay(seconds(60));
  rig.wait(seconds(30 * 86'400));
  EXPECT_EQ(rig.job(rig.id), before);
  rig.expect_paused_at(rig.id, 2);
}

TEST(Pause, OutlivesTheCoordinator) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  const auto return_both = [&] {
    rig.restart();
    rig.a = rig.join("a", Incarnation{1}, {rig.rep_a});
    rig.b = rig.join("b", Incarnation{1}, {rig.rep_b});
  };
  return_both();  // while its round is open
  rig.commit(2);
  return_both();  // while it finalizes
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  rig.evaluate(2);
  rig.store(rig.id);
  return_both();  // while it is paused
  rig.expect_paused_at(rig.id, 2);
  EXPECT_FALSE(rig.last<Assign>(rig.a));
  ASSERT_TRUE(rig.resume(rig.id).ok());
  EXPECT_TRUE(rig.last<Assign>(rig.a));
}

TEST(Pause, LosesNothingToAStallThatCannotFinishTheRound) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, "SIGKILL"});
  rig.expect_paused_at(rig.id, 1);  // its checkpoint was there already
  EXPECT_EQ(rig.job(rig.id).next_sequence, 80) << "what round 2 had leased is to be trained";
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 0);
  EXPECT_EQ(rig.last<Release>(rig.a)->reason, ReleaseReason::kPaused);
}

TEST(Pause, StoresWhatAStalledJobHasCommitted) {
  JobSpec spec = long_job();
  spec.checkpoint.every_rounds = 0;
  Pair rig(spec);
  rig.commit(1), rig.evaluate(1);
  rig.say(rig.b, Goodbye{"stopped"});
  ASSERT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 1);
  EXPECT_EQ(rig.job(rig.id).epoch, 1) << "round 2 was given up";
  EXPECT_EQ(rig.job(rig.id).next_sequence, 80) << "what round 2 had leased is to be trained";
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
}

TEST(Pause, OfAJobThatCommitsItsLastStepCompletesIt) {
  Pair rig(small_job());
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2);
  EXPECT_TRUE(rig.state().checkpoints.at(rig.newest(rig.id)).final);
  rig.store(rig.id);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCompleted);
}

TEST(Resume, BeginsWithTheCommittedRoundOnWhateverIsThere) {
  Pair rig;
  rig.pause_after_two();
  rig.input(ChangeJob{RequestId{3}, rig.id, 0.25});
  EXPECT_TRUE(rig.replies.back().result.ok());
  ASSERT_TRUE(rig.resume(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id).desired, JobDesired::kRun);
  const Assign assign = *rig.last<Assign>(rig.a);
  EXPECT_EQ(assign.source.kind, SourceKind::kCheckpoint);
  EXPECT_EQ(assign.source.checkpoint, rig.checkpoint);
  EXPECT_EQ(assign.source.anchor, (Digest{11, 11}));
  rig.load_again();
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  const auto open = rig.last<ToReplica<OpenRound>>(rig.a)->body;
  EXPECT_EQ(open.key, rig.key(3)) << "the same epoch: nothing was lost";
  EXPECT_EQ(open.from_step, Steps(20));
  EXPECT_EQ(open.leases.at(0).first, 160) << "behind all that was trained";
  rig.commit(3);
  EXPECT_EQ(rig.job(rig.id).committed_tokens, Tokens(6 * 1280));
  EXPECT_DOUBLE_EQ(rig.rounds_.at(rig.key(3)).outer_lr, 0.25);
}

TEST(Resume, WaitsLikeANewJobWhereNobodyIs) {
  Pair rig;
  rig.pause_after_two();
  rig.say(rig.a, Goodbye{"stopped"}), rig.say(rig.b, Goodbye{"stopped"});
  ASSERT_TRUE(rig.resume(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kQueued);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kNoAgents);
  EXPECT_EQ(rig.job(rig.id).failures_in_row, 0);
}

TEST(Resume, BeforeItsRoundCommitsChangesNothing) {
  Pair rig;
  rig.commit(1);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  ASSERT_TRUE(rig.resume(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kRunning);
  rig.commit(2);
  EXPECT_FALSE(rig.last<ToReplica<CommitRound>>(rig.a)->body.last);
  EXPECT_TRUE(rig.state().rounds.contains(rig.key(3)));
}

TEST(Resume, WhileItFinalizesTrainsOn) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2);
  ASSERT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  ASSERT_TRUE(rig.resume(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.key, rig.key(3));
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.b)->body.from_step, Steps(20));
  EXPECT_FALSE(rig.last<Release>(rig.a));
  rig.store(rig.id);  // what was asked for arrives nevertheless
  rig.commit(3);
  EXPECT_EQ(rig.job(rig.id).committed_step, Steps(30));
}

TEST(Resume, LetsReplicasGoThatTrainAheadWhileItFinalizes) {
  JobSpec spec = long_job();
  change_sync(spec, [](SyncSpec& sync) { sync.overlap_steps = Steps(2); });
  Pair rig(spec);
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2);
  ASSERT_TRUE(rig.resume(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  rig.evaluate(2);
  rig.store(rig.id);
  EXPECT_EQ(rig.last<Release>(rig.a)->reason, ReleaseReason::kPaused);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kGathering);
  EXPECT_EQ(rig.job(rig.id).returned, (std::vector<DataLease>{{128, 8}}))
      << "what was trained ahead is trained again";
  EXPECT_EQ(rig.job(rig.id).next_sequence, 168);
  rig.load_again();
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.key, rig.key(3));
}

TEST(Resume, KeepsTheScheduleOfTheFragments) {
  JobSpec spec = long_job();
  spec.model.layers = 2;
  change_sync(spec, [](SyncSpec& sync) { sync.fragments = 2; });
  Pair rig(spec, {600, 400});
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2), rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.last<ToReplica<ReducePlan>>(rig.a)->body.fragment, 2) << "not all of them at once";
  ASSERT_TRUE(rig.resume(rig.id).ok());
  rig.load_again();
  const auto open = rig.last<ToReplica<OpenRound>>(rig.a)->body;
  EXPECT_EQ(open.key, rig.key(3));
  EXPECT_EQ(open.from_step, Steps(10));
  EXPECT_EQ(open.fragment, 1);
}

TEST(Resume, OfAnAsynchronousJobGivesTheLateOnesSequencesBack) {
  JobSpec spec = long_job();
  change_sync(spec, [](SyncSpec& sync) {
    sync.algorithm = SyncAlgorithm::kAsync;
    sync.quorum = 1;
  });
  Pair rig(spec);
  const DataLease late = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  const auto round_of_a = [&](RoundNumber round) {
    rig.report(rig.a, rig.rep_a, rig.key(round));
    rig.stay(seconds(1));
    rig.finish(round);
  };
  round_of_a(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  round_of_a(2), rig.evaluate(2);
  EXPECT_TRUE(rig.last<ToReplica<CommitRound>>(rig.b)->body.last);
  EXPECT_FALSE(rig.last<ToReplica<CommitRound>>(rig.b)->body.keeps);
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.job(rig.id).returned, std::vector{late});
  ASSERT_TRUE(rig.resume(rig.id).ok());
  rig.load_again();
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.leases.at(0), late);
}

TEST(Resume, OfAJobInGroupsBeginsWithTheCheckpointsReplica) {
  JobSpec spec = long_job();
  change_sync(spec, [](SyncSpec& sync) {
    sync.topology = Topology::kGossip;
    sync.codec = CodecKind::kFp32;
    sync.outer.momentum = 0.5;
  });
  Pair rig(spec);
  ASSERT_TRUE(averages_in_groups(rig.job(rig.id)));
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.report_both(2);
  rig.vote(rig.a, rig.rep_a, rig.key(2), 1), rig.vote(rig.b, rig.rep_b, rig.key(2), 1);
  rig.applied(rig.a, rig.rep_a, rig.key(2), {21, 21});
  rig.applied(rig.b, rig.rep_b, rig.key(2), {22, 22});
  rig.evaluate(2);
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
  ASSERT_TRUE(rig.resume(rig.id).ok());
  rig.load_again();
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(Resume, OfAPipelineLoadsEveryStage) {
  Piped rig;
  ASSERT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  const std::vector<UnitRange> cut = cut_of(rig.job(rig.id));
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  rig.upload(rig.newest(rig.id), 0);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing) << "the part of stage 1 is out";
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
  ASSERT_TRUE(rig.resume(rig.id).ok());
  rig.wait(seconds(3));
  EXPECT_EQ(rig.last<Assign>(rig.a)->cut, cut);
  EXPECT_EQ(rig.last<Assign>(rig.a)->source.kind, SourceKind::kCheckpoint);
  EXPECT_NE(rig.last<Assign>(rig.a)->stage, rig.last<Assign>(rig.b)->stage);
  rig.load_what_is_told(rig.a), rig.load_what_is_told(rig.b);
  rig.wait(seconds(3));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  rig.commit(3);
  EXPECT_EQ(rig.job(rig.id).committed_round, 3);
}

}  // namespace
}  // namespace shoal::coordinator
