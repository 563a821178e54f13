// Checkpoints on disk that the tables do not know: what they count for, and what is told of them.
#include "coordinator/core/checkpoints/found.h"

#include <gtest/gtest.h>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/restore_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(Found, TheNewestCheckpointOnDiskCountsAgain) {
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
TEST(Found, ACheckpointOnDiskThatIsNotWholeIsToldAndItsIdNotGivenOut) {
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

TEST(Found, FilesTellThatACopyWithoutAMarkIsOlder) {
  BackupRig rig;
  rig.commit(1);
  Snapshot copy = rig.snapshot();
  rig.restore(copy, {rig.stored(7, CheckpointId(41))});
  rig.connect_empty();
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 7);
  EXPECT_GT(rig.job(rig.id).epoch, 100);
}

TEST(Found, FilesOfAnUnknownJobAreToldAndKept) {
  BackupRig rig;
  CheckpointRecord other = rig.stored(3, CheckpointId(50));
  other.key.job = JobId(99);
  rig.restart({other});
  EXPECT_FALSE(rig.state().checkpoints.contains(CheckpointId(50)));
  EXPECT_TRUE(rig.deleted.empty());
  EXPECT_EQ(rig.count(event_kind::kCheckpointStored), 1);
  EXPECT_GT(rig.state().counters.next_checkpoint, 50u);
}

TEST(Found, FilesOfAnUnknownJobAreNoSignOfABackupTwice) {
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

// The coordinator that stored it had another clock, or this clock was set back since.
TEST(Found, TheEpochIsLaterThanThatOfTheFiles) {
  BackupRig rig;
  rig.commit(1);
  CheckpointRecord found = rig.stored(7, CheckpointId(41));
  found.key.epoch = (rig.now + seconds(3600)).ns / 1'000'000;
  rig.restore(rig.backup(), {found});
  rig.connect_empty();
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 7);
  EXPECT_GT(rig.job(rig.id).epoch, found.key.epoch);
}

// Only a replica that lives knows the job; what is on disk is newer than what it holds.
TEST(Found, CheckpointsCountAsSoonAsTheirJobIsKnown) {
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

TEST(Found, PartsSayWhatTheStagesAreWhereNothingElseDoes) {
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
  backup.jobs[0].spec.swarm.recut = true;
  rig.restore(backup, {older, two});
  EXPECT_TRUE(rig.state().checkpoints.contains(CheckpointId(40))) << "it had those before";
  EXPECT_EQ(rig.job(rig.id).stages[0].units, (UnitRange{0, 1}));
}

}  // namespace
}  // namespace shoal::coordinator
