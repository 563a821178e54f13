// A database that says of itself that it is a backup, or is older than the files beside it: what is
// told apart by ids and epochs, and where jobs continue when nobody holds anything.
#include <gtest/gtest.h>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/restore_test_util.h"
#include "coordinator/core/restoring.h"
#include "job/job_rules.h"

namespace shoal::coordinator {
namespace {

TEST(RestoredBackup, TheEpochIsRaisedWhereNobodyHoldsAnything) {
  BackupRig rig;
  rig.commit(1);
  const Snapshot backup = rig.backup();
  rig.commit(2);
  const HeldReplica late = rig.held(rig.rep_b);
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {})});
  for (int i = 0; i < 90; ++i) rig.wait(seconds(2)), rig.say(ConnectionId{801}, Heartbeat{});
  EXPECT_GT(rig.job(rig.id).epoch, 100) << "whatever the lost history counted";
  EXPECT_EQ(rig.count(event_kind::kJobRestored), 1);
  EXPECT_EQ(rig.state().counters.backup_at, Instant()) << "it is a database like any other now";
  const std::int64_t epoch = rig.job(rig.id).epoch;
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {late})});
  rig.beat(3);
  EXPECT_TRUE(rig.last<Welcome>(ConnectionId{802})->keep.empty()) << "it comes from that history";
  EXPECT_EQ(rig.job(rig.id).epoch, epoch);
  const auto told = std::ranges::find_if(rig.events, [&](const EventRecord& event) {
    return event.kind == event_kind::kReplicaReturned && event.replica == rig.rep_b;
  });
  ASSERT_NE(told, rig.events.end());
  EXPECT_EQ(told->round, 2);
}

TEST(RestoredBackup, IdsAreNotGivenOutTwice) {
  BackupRig rig;
  const Snapshot backup = rig.backup();
  const CounterRecord before = backup.counters;
  rig.restore(backup);
  const CounterRecord& after = rig.state().counters;
  EXPECT_GE(after.next_job, before.next_job + 1000);
  EXPECT_GE(after.next_agent, before.next_agent + 1000);
  EXPECT_GE(after.next_replica, before.next_replica + 1000);
  EXPECT_GE(after.next_checkpoint, before.next_checkpoint + 1000);
  const std::uint64_t once = after.next_job;
  rig.restore(backup);
  EXPECT_NE(rig.state().counters.next_job, once) << "nor by two starts with one backup";
}

// After the backup a copy of the agent's folder was started, and counted as its second start.
TEST(RestoredBackup, AnIncarnationIsNotGivenOutTwice) {
  BackupRig rig;
  const Snapshot backup = rig.backup();
  rig.restore(backup);
  Hello started = rig.hello("a", {});
  started.incarnation = Incarnation();
  rig.input(AgentHello{ConnectionId{801}, started});
  EXPECT_GT(rig.last<Welcome>(ConnectionId{801})->incarnation.n, 1000u);
  Hello copy = rig.hello("a", {});
  copy.incarnation = Incarnation{2};
  rig.input(AgentHello{ConnectionId{802}, copy});
  EXPECT_TRUE(rig.last<Refused>(ConnectionId{802}));
}

// Both agents return with what they held; that of the first one.
HeldReplica put_back_under_round_1(BackupRig& rig, Digest data = {}) {
  rig.commit(1);
  const Snapshot backup = rig.backup();
  HeldReplica of_a = rig.held(rig.rep_a), of_b = rig.held(rig.rep_b);
  of_a.record.data = of_b.record.data = data;
  rig.sign(of_a), rig.sign(of_b);
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {of_b})});
  rig.beat(6);
  return of_a;
}

TEST(RestoredBackup, WhoHoldsWhatItKnowsGoesOnInANewEpoch) {
  BackupRig rig;
  put_back_under_round_1(rig);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_GT(rig.job(rig.id).epoch, 100);
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(ConnectionId{801})->body.key.round, 2);
}

// It loaded when nobody listened, and its host has another file since.
TEST(RestoredBackup, WhoHasOtherDataIsRefusedAfterwards) {
  BackupRig rig;
  HeldReplica of_a = put_back_under_round_1(rig, {7, 7});
  ASSERT_EQ(rig.job(rig.id).data, (Digest{7, 7}));
  of_a.key.epoch = rig.job(rig.id).epoch;
  const auto say_loaded = [&](Digest data) {
    rig.say(ConnectionId{801}, Loaded{.replica = rig.rep_a,
                                      .key = of_a.key,
                                      .anchor = of_a.anchor,
                                      .momentum = of_a.momentum,
                                      .value_count = 1000,
                                      .address = of_a.address,
                                      .data = data});
  };
  say_loaded({7, 7});
  EXPECT_TRUE(is_live(rig.state(), rig.rep_a));
  say_loaded({2, 2});
  EXPECT_EQ(rig.replicas_.at(rig.rep_a).failure, ReplicaFailure::kDataInvalid);
  EXPECT_EQ(rig.job(rig.id).data, (Digest{7, 7}));
  EXPECT_TRUE(is_live(rig.state(), rig.rep_b));
}

// It held nothing that was committed when it returned, and heard the commit again.
TEST(RestoredBackup, WhoTakesTheOuterStepBeforeTheDecisionHoldsIt) {
  BackupRig rig;
  const HeldReplica of_a = rig.held(rig.rep_a);
  const RoundKey key = rig.key(1);
  rig.report(rig.a, rig.rep_a, key), rig.report(rig.b, rig.rep_b, key);
  rig.vote(rig.a, rig.rep_a, key, 1, {1, 3}), rig.vote(rig.b, rig.rep_b, key, 1, {1, 3});
  ASSERT_EQ(rig.job(rig.id).committed_round, 1);
  rig.restore(rig.backup());
  const ConnectionId a{801};
  rig.input(AgentHello{a, rig.hello("a", {of_a})});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {})});
  rig.applied(a, rig.rep_a, key, {1, 3});
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
}

// The line was cut before the word of the new epoch arrived.
TEST(RestoredBackup, WhoHasNotHeardOfTheNewEpochIsToldAgain) {
  BackupRig rig;
  const HeldReplica of_a = put_back_under_round_1(rig);
  const RoundKey now{rig.id, rig.job(rig.id).epoch, 1};
  ASSERT_EQ(rig.last<ToReplica<ResumeAt>>(ConnectionId{801})->body.key, now);
  rig.input(AgentHello{ConnectionId{803}, rig.hello("a", {of_a})});
  ASSERT_TRUE(rig.last<ToReplica<ResumeAt>>(ConnectionId{803}));
  EXPECT_EQ(rig.last<ToReplica<ResumeAt>>(ConnectionId{803})->body.key, now);
  rig.input(AgentHello{ConnectionId{804}, rig.hello("a", {rig.held(rig.rep_a)})});
  EXPECT_FALSE(rig.last<ToReplica<ResumeAt>>(ConnectionId{804})) << "it has heard of it";
}

TEST(RestoredBackup, AJobThatItDoesNotKnowGoesOn) {
  BackupRig rig;
  const Snapshot backup = rig.before_the_job();
  rig.commit(1), rig.commit(2);
  HeldReplica of_a = rig.held(rig.rep_a), of_b = rig.held(rig.rep_b);
  of_a.record.data = of_b.record.data = {7, 7};
  rig.sign(of_a), rig.sign(of_b);
  const JobSpec spec = rig.job(rig.id).spec;
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  EXPECT_EQ(rig.last<Welcome>(ConnectionId{801})->keep, std::vector{rig.rep_a});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {of_b})});
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).spec, spec);
  EXPECT_EQ(rig.job(rig.id).data, (Digest{7, 7})) << "nobody trains on other data";
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  const auto told = std::ranges::find_if(rig.events, [&](const EventRecord& event) {
    return event.kind == event_kind::kJobRestored && event.agent != AgentId();
  });
  ASSERT_NE(told, rig.events.end());
  EXPECT_EQ(told->job, rig.id);
  const auto next = rig.submit([] {
    JobSpec other = small_job();
    other.name = "other";
    return other;
  }());
  ASSERT_TRUE(next);
  EXPECT_GT(next->n, rig.id.n);
}

TEST(RestoredBackup, AJobWhoseNameWasTakenMeanwhileGetsAnotherOne) {
  BackupRig rig;
  rig.commit(1);
  HeldReplica held = rig.held(rig.rep_a);
  held.job = held.key.job = held.record.key.job = JobId(77);
  held.replica = ReplicaId(777);
  held.record.proof.agent = AgentId(3);
  rig.sign(held);
  rig.input(AgentHello{ConnectionId{803}, rig.hello("c", {held})});
  ASSERT_TRUE(rig.state().jobs.contains(JobId(77)));
  EXPECT_EQ(rig.job(JobId(77)).spec.name, rig.job(rig.id).spec.name + "-77");
  EXPECT_TRUE(validate(rig.job(JobId(77)).spec).empty());
  EXPECT_GT(rig.state().counters.next_job, 77u);
}

TEST(RestoredBackup, WhatLivesAndIsNewerGoesBeforeACheckpoint) {
  BackupRig rig;
  rig.commit(1);
  const Snapshot backup = rig.backup();
  rig.commit(2), rig.commit(3);
  const HeldReplica of_a = rig.held(rig.rep_a), of_b = rig.held(rig.rep_b);
  rig.restore(backup, {rig.stored(2, CheckpointId(40))});
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {of_b})});
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 3);
}

TEST(RestoredBackup, ACrashBeforeTheDecisionForgetsNothing) {
  BackupRig rig;
  rig.commit(1);
  const Snapshot copy = rig.snapshot();  // without a mark
  rig.commit(2);
  const HeldReplica of_a = rig.held(rig.rep_a), of_b = rig.held(rig.rep_b);
  rig.restore(copy);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  ASSERT_TRUE(rig.state().restoring.contains(rig.id));
  rig.restart();
  EXPECT_TRUE(rig.state().restoring.contains(rig.id)) << "the mark is durable";
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {of_b})});
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
  EXPECT_EQ(rig.state().counters.backup_at, Instant());
}

TEST(RestoredBackup, APausedJobGoesOnFromWhatLives) {
  BackupRig rig;
  rig.commit(1);
  Snapshot backup = rig.backup();
  rig.commit(2);
  const HeldReplica of_a = rig.held(rig.rep_a), of_b = rig.held(rig.rep_b);
  backup.jobs[0].phase = JobPhase::kPaused;
  backup.jobs[0].desired = JobDesired::kPause;
  backup.replicas.clear(), backup.rounds.clear(), backup.contributions.clear();
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {of_b})});
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
}

TEST(RestoredBackup, AJobThatIsCancelledBeforeTheDecisionLetsGo) {
  BackupRig rig;
  rig.commit(1);
  const Snapshot backup = rig.backup();
  const HeldReplica of_a = rig.held(rig.rep_a);
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  rig.input(CancelJob{RequestId{900}, rig.id});
  EXPECT_EQ(rig.last<Release>(ConnectionId{801})->replica, rig.rep_a);
  EXPECT_EQ(rig.last<Release>(ConnectionId{801})->reason, ReleaseReason::kCancelled);
  EXPECT_TRUE(rig.state().restoring.empty());
}

}  // namespace
}  // namespace shoal::coordinator
