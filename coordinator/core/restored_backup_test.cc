// A database that says of itself that it is a backup, or is older than the files beside it: what is
// told apart by ids and epochs, and where jobs go on when nobody holds anything.
#include <gtest/gtest.h>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/restore_test_util.h"
#include "coordinator/core/restoring.h"

namespace shoal::coordinator {
namespace {

struct BackupRig : HeldRig {
  Snapshot backup() const {
    Snapshot copy = snapshot();
    copy.counters.backup_at = now;
    return copy;
  }
  Snapshot before_the_job() const {
    Snapshot copy = backup();
    copy.jobs.clear(), copy.replicas.clear(), copy.rounds.clear();
    copy.contributions.clear(), copy.checkpoints.clear();
    copy.counters.next_job = id.n, copy.counters.next_replica = rep_a.n;
    return copy;
  }
  Hello hello(const std::string& name, std::vector<HeldReplica> held) const {
    Hello hello{.uid = "uid-" + name, .name = name};
    hello.incarnation = Incarnation{1};
    hello.devices = state().agents.begin()->second.devices;
    hello.replicas = std::move(held);
    return hello;
  }
  HeldReplica held(ReplicaId replica) const { return held_replicas(state(), {replica}).front(); }
  // A stored checkpoint as a manifest tells of it.
  CheckpointRecord stored(RoundNumber round, CheckpointId checkpoint) const {
    CheckpointRecord record;
    record.id = checkpoint;
    record.key = key(round);
    record.state = CheckpointState::kStored;
    record.step = Steps(round * 10);
    record.tokens = Tokens(round * 100);
    record.next_sequence = round * 20;
    record.parts = {{.writer = rep_a,
                     .state = CheckpointState::kStored,
                     .anchor = {static_cast<std::uint64_t>(round), 3},
                     .momentum = {9, 9},
                     .files = {{"model", Bytes(4), std::string(64, 'a')}}}};
    return record;
  }
  void connect_empty() {
    input(AgentHello{ConnectionId{801}, hello("a", {})});
    input(AgentHello{ConnectionId{802}, hello("b", {})});
  }
  void beat(int times) {
    for (int i = 0; i < times; ++i) {
      wait(seconds(2));
      say(ConnectionId{801}, Heartbeat{}), say(ConnectionId{802}, Heartbeat{});
    }
  }
  std::int64_t count(const char* kind) const {
    return std::ranges::count_if(events, [&](const EventRecord& e) { return e.kind == kind; });
  }
};

TEST(RestoredBackup, TheEpochIsRaisedWhereNobodyHoldsAnything) {
  BackupRig rig;
  rig.commit(1);
  const Snapshot backup = rig.backup();
  rig.commit(2);
  const HeldReplica late = rig.held(rig.rep_b);
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {})});
  for (int i = 0; i < 90; ++i) rig.wait(seconds(2)), rig.say(ConnectionId{801}, Heartbeat{});
  EXPECT_GT(rig.job(rig.id).lineage, 100) << "whatever the lost history counted";
  EXPECT_EQ(rig.count(event_kind::kJobRestored), 1);
  EXPECT_EQ(rig.state().counters.backup_at, Instant()) << "it is a database like any other now";
  const std::int64_t epoch = rig.job(rig.id).lineage;
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {late})});
  rig.beat(3);
  EXPECT_TRUE(rig.last<Welcome>(ConnectionId{802})->keep.empty()) << "it comes from that history";
  EXPECT_EQ(rig.job(rig.id).lineage, epoch);
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

TEST(RestoredBackup, WhoHoldsWhatItKnowsGoesOnInANewEpoch) {
  BackupRig rig;
  rig.commit(1);
  const Snapshot backup = rig.backup();
  const HeldReplica of_a = rig.held(rig.rep_a), of_b = rig.held(rig.rep_b);
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {of_b})});
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_GT(rig.job(rig.id).lineage, 100);
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(ConnectionId{801})->body.key.round, 2);
}

TEST(RestoredBackup, AJobThatItDoesNotKnowGoesOn) {
  BackupRig rig;
  const Snapshot backup = rig.before_the_job();
  rig.commit(1), rig.commit(2);
  const HeldReplica of_a = rig.held(rig.rep_a), of_b = rig.held(rig.rep_b);
  const JobSpec spec = rig.job(rig.id).spec;
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  EXPECT_EQ(rig.last<Welcome>(ConnectionId{801})->keep, std::vector{rig.rep_a});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {of_b})});
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).spec, spec);
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
  rig.input(AgentHello{ConnectionId{803}, rig.hello("c", {held})});
  ASSERT_TRUE(rig.state().jobs.contains(JobId(77)));
  EXPECT_EQ(rig.job(JobId(77)).spec.name, rig.job(rig.id).spec.name + "-77");
  EXPECT_TRUE(validate(rig.job(JobId(77)).spec).empty());
  EXPECT_GT(rig.state().counters.next_job, 77u);
}

TEST(RestoredBackup, TheNewestCheckpointOnDiskCountsAgain) {
  BackupRig rig;
  rig.commit(1);
  const Snapshot backup = rig.backup();
  const std::vector<CheckpointRecord> found{rig.stored(4, CheckpointId(40)),
                                            rig.stored(7, CheckpointId(41))};
  rig.restore(backup, found);
  EXPECT_TRUE(rig.deleted.empty());
  EXPECT_EQ(rig.count(event_kind::kCheckpointStored), 2);
  rig.connect_empty();
  rig.beat(6);
  const JobRecord& job = rig.job(rig.id);
  EXPECT_EQ(job.committed_round, 7);
  EXPECT_EQ(job.committed_step, Steps(70));
  EXPECT_EQ(job.next_sequence, 140);
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0) << "it went forward";
  const Assign assign = rig.last<Assign>(ConnectionId{801}).value();
  EXPECT_EQ(assign.source.checkpoint, CheckpointId(41));
  EXPECT_GT(rig.state().counters.next_checkpoint, 41u);
}

// Its folder must not become that of the next checkpoint.
TEST(RestoredBackup, ACheckpointOnDiskThatIsNotWholeIsToldAndItsIdNotGivenOut) {
  BackupRig rig;
  rig.commit(1);
  const std::uint64_t next = rig.state().counters.next_checkpoint;
  CheckpointRecord damaged;
  damaged.id = CheckpointId(next);
  damaged.state = CheckpointState::kFailed;
  damaged.detail = "model.bin: another SHA-256";
  rig.restore(rig.snapshot(), {damaged});
  EXPECT_EQ(rig.count(event_kind::kCheckpointFailed), 1);
  EXPECT_GT(rig.state().counters.next_checkpoint, next);
  EXPECT_FALSE(rig.state().checkpoints.contains(damaged.id));
  EXPECT_TRUE(rig.deleted.empty());
}

TEST(RestoredBackup, FilesTellThatACopyWithoutAMarkIsOlder) {
  BackupRig rig;
  rig.commit(1);
  Snapshot copy = rig.snapshot();
  rig.restore(copy, {rig.stored(7, CheckpointId(41))});
  rig.connect_empty();
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 7);
  EXPECT_GT(rig.job(rig.id).lineage, 100);
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

TEST(RestoredBackup, FilesOfAnUnknownJobAreToldAndKept) {
  BackupRig rig;
  CheckpointRecord other = rig.stored(3, CheckpointId(50));
  other.key.job = JobId(99);
  rig.restart({other});
  EXPECT_FALSE(rig.state().checkpoints.contains(CheckpointId(50)));
  EXPECT_TRUE(rig.deleted.empty());
  EXPECT_EQ(rig.count(event_kind::kCheckpointStored), 1);
  EXPECT_GT(rig.state().counters.next_checkpoint, 50u);
}

TEST(RestoredBackup, FilesOfAnUnknownJobAreNoSignOfABackupTwice) {
  BackupRig rig;
  rig.commit(1);
  CheckpointRecord other = rig.stored(3, CheckpointId(50));
  other.key.job = JobId(99);
  rig.restart({other});
  EXPECT_FALSE(rig.state().restoring.empty());
  rig.connect_empty();
  rig.beat(6);
  ASSERT_TRUE(rig.state().restoring.empty());
  rig.restart({other});
  EXPECT_TRUE(rig.state().restoring.empty()) << "this database has gone on since";
}

// Whoever stored it had another clock, or this one was set back since.
TEST(RestoredBackup, TheEpochIsLaterThanThatOfTheFiles) {
  BackupRig rig;
  rig.commit(1);
  CheckpointRecord found = rig.stored(7, CheckpointId(41));
  found.key.lineage = (rig.now + seconds(3600)).ns / 1'000'000;
  rig.restore(rig.backup(), {found});
  rig.connect_empty();
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 7);
  EXPECT_GT(rig.job(rig.id).lineage, found.key.lineage);
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

// Only a replica that lives knows the job; what is on disk is newer than what it holds.
TEST(RestoredBackup, CheckpointsCountAsSoonAsTheirJobIsKnown) {
  BackupRig rig;
  const Snapshot backup = rig.before_the_job();
  rig.commit(1), rig.commit(2);
  const HeldReplica of_a = rig.held(rig.rep_a);
  rig.restore(backup, {rig.stored(5, CheckpointId(41))});
  EXPECT_FALSE(rig.state().checkpoints.contains(CheckpointId(41)));
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {})});
  EXPECT_TRUE(rig.state().checkpoints.contains(CheckpointId(41)));
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 5);
  EXPECT_EQ(rig.last<Assign>(ConnectionId{801})->source.checkpoint, CheckpointId(41));
}

TEST(RestoredBackup, PartsSayWhatTheStagesAreWhereNothingElseDoes) {
  BackupRig rig;
  rig.commit(1);
  Snapshot backup = rig.backup();
  backup.jobs[0].stages.clear(), backup.jobs[0].committed_round = 0;
  backup.jobs[0].spec.swarm.stages = 2;
  backup.replicas.clear(), backup.rounds.clear(), backup.contributions.clear();
  const std::int32_t last = whole_model(backup.jobs[0].spec).front().last;
  CheckpointRecord two = rig.stored(7, CheckpointId(41));
  two.parts.push_back(two.parts.front());
  two.parts[0].units = {0, 2}, two.parts[1].units = {3, last};
  CheckpointRecord older = two;
  older.id = CheckpointId(40), older.key.round = 6;
  rig.restore(backup, {older, two});
  EXPECT_TRUE(rig.job(rig.id).stages.empty()) << "a layer is missing";
  older.parts[1].units = {2, last};
  two.parts[0].units = {0, 1}, two.parts[1].units = {1, last};
  rig.restore(backup, {older, two});
  ASSERT_EQ(rig.job(rig.id).stages.size(), 2u);
  EXPECT_EQ(rig.job(rig.id).stages[0].units, (UnitRange{0, 1})) << "the newest says it";
  EXPECT_FALSE(rig.state().checkpoints.contains(CheckpointId(40))) << "it is of other stages";
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
