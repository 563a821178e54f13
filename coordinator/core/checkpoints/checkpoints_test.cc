// Checkpoints that cannot be stored, most likely because a disk is full: the job says so, loses
// nothing for it, and continues by itself when there is room again.
#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

// The newest checkpoint fails, whichever replica writes it.
void fail_newest(Pair& rig) {
  const CheckpointId id = rig.newest(rig.id);
  rig.input(CheckpointUploadFailed{id, 0, "disk full"});
  EXPECT_EQ(rig.newest(rig.id), id) << "another replica writes it";
  rig.input(CheckpointUploadFailed{id, 0, "disk full"});
  EXPECT_FALSE(rig.state().checkpoints.contains(id));
}

TEST(Storing, AJobThatTrainsSaysWhatFailsAndTrainsOn) {
  Pair rig;
  rig.commit(1), rig.evaluate(1);
  fail_newest(rig);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kCheckpointFailing);
  EXPECT_THAT(rig.job(rig.id).detail, HasSubstr("disk full"));
  EXPECT_GE(rig.count_events(event_kind::kCheckpointFailed), 1);
  rig.commit(2), rig.evaluate(2);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kCheckpointFailing) << "still none is stored";
  rig.store(rig.id);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kRunning);
  EXPECT_EQ(rig.job(rig.id).detail, "");
}

TEST(Storing, OnesWhoseWriterIsLostAreNoTrouble) {
  Pair rig;
  rig.commit(1), rig.evaluate(1);
  rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kTrainerExited, ""});
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  EXPECT_NE(rig.job(rig.id).reason, JobReason::kCheckpointFailing);
}

// The first writer's files arrive when the part is another one's: they are not those announced.
TEST(Storing, FilesOfAWriterBeforeDoNotMakeItStored) {
  Pair rig;
  rig.commit(1), rig.evaluate(1);
  const CheckpointId id = rig.newest(rig.id);
  const CheckpointRecord before = rig.state().checkpoints.at(id);
  rig.say(rig.a, CheckpointWritten{before.parts[0].writer, id, before.key, part_files('a')});
  rig.input(CheckpointUploadFailed{id, 0, "it was interrupted"});
  ASSERT_EQ(rig.state().checkpoints.at(id).state, CheckpointState::kWriting);
  const std::vector<FileEntry> first = part_files('a'), second = part_files('b');
  rig.input(CheckpointUploaded{id, 0, first});
  EXPECT_EQ(rig.state().checkpoints.at(id).state, CheckpointState::kWriting);
  const ReplicaId writer = rig.state().checkpoints.at(id).parts[0].writer;
  rig.say(rig.b, CheckpointWritten{writer, id, before.key, second});
  rig.input(CheckpointUploaded{id, 0, first});
  EXPECT_EQ(rig.state().checkpoints.at(id).state, CheckpointState::kUploading);
  rig.input(CheckpointUploaded{id, 0, second});
  EXPECT_EQ(rig.state().checkpoints.at(id).state, CheckpointState::kStored);
}

// Nothing older is deleted for a part that lacks a file, whatever its writer says.
TEST(Storing, AnIncompletePartGoesToAnotherWriter) {
  JobSpec spec = long_job();
  spec.checkpoint.keep = 1;
  Pair rig(spec);
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  const CheckpointId good = rig.newest(rig.id);
  rig.commit(2), rig.evaluate(2);
  const CheckpointId id = rig.newest(rig.id);
  const CheckpointRecord asked = rig.state().checkpoints.at(id);
  std::vector<FileEntry> files = part_files('a');
  std::erase_if(files, [](const FileEntry& file) { return file.path == "model.safetensors"; });
  rig.say(rig.a, CheckpointWritten{asked.parts[0].writer, id, asked.key, files});
  EXPECT_EQ(rig.last<ForgetCheckpoint>(rig.a)->checkpoint, id);
  const CheckpointRecord& again = rig.state().checkpoints.at(id);
  EXPECT_NE(again.parts[0].writer, asked.parts[0].writer);
  EXPECT_EQ(again.parts[0].state, CheckpointState::kWriting);
  const CheckpointWritten other{again.parts[0].writer, id, asked.key, part_files('a'), "", {6, 6}};
  rig.say(rig.b, other);
  EXPECT_FALSE(rig.state().checkpoints.contains(id)) << "its anchor is not the committed one";
  EXPECT_THAT(rig.job(rig.id).detail, HasSubstr("anchor"));
  EXPECT_EQ(rig.state().checkpoints.at(good).state, CheckpointState::kStored);
  rig.commit(3), rig.evaluate(3), rig.store(rig.id);
  EXPECT_FALSE(rig.state().checkpoints.contains(good));
}

TEST(Storing, TheFinalCheckpointIsTriedForAsLongAsItTakes) {
  Pair rig(small_job());
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  rig.commit(2), rig.evaluate(2);
  CheckpointId last;
  for (int i = 0; i < 2 * rig.options.failures_in_row_max; ++i) {
    ASSERT_GT(rig.newest(rig.id), last);
    last = rig.newest(rig.id);
    fail_newest(rig);
    ASSERT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
    EXPECT_EQ(rig.job(rig.id).reason, JobReason::kCheckpointFailing);
    rig.stay(seconds(5));
    EXPECT_LT(rig.newest(rig.id), last) << "not at once";
    rig.stay(seconds(5));
  }
  EXPECT_EQ(rig.job(rig.id).failures_in_row, 0);
  rig.store(rig.id);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCompleted);
}

// a's turn is over, and nobody else can write it: it is made again instead of waited for.
TEST(Storing, AnAbsentWriterIsNotWaitedForWhileOthersHoldTheRound) {
  Pair rig;
  rig.commit(1), rig.evaluate(1);
  const CheckpointId first = rig.newest(rig.id);
  rig.input(CheckpointUploadFailed{first, 0, "disk full"});  // b writes it now, and falls silent
  for (int i = 0; i < 120; ++i) rig.wait(seconds(2)), rig.say(rig.a, Heartbeat{});
  EXPECT_FALSE(rig.state().checkpoints.contains(first));
}

TEST(Storing, TheOnlyWriterOfTheFinalCheckpointIsWaitedForInTheOpen) {
  Pair rig(small_job());
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  rig.commit(2), rig.evaluate(2);
  const CheckpointId last = rig.newest(rig.id);
  rig.say(rig.b, Goodbye{"stopped"});
  rig.wait(seconds(20));  // a, which writes it, is silent
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kWaitingForAbsent);
  const AgentId agent = rig.state().replicas.at(rig.rep_a).agent;
  rig.a = rig.join("a", rig.state().agents.at(agent).incarnation, {rig.rep_a});
  rig.stay(seconds(10));
  ASSERT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  EXPECT_EQ(rig.newest(rig.id), last) << "it continues";
  rig.store(rig.id);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCompleted);
}

// The folder of the agent is what is full.
TEST(Storing, APauseWaitsForRoomOnTheAgents) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2);
  const CheckpointId first = rig.newest(rig.id);
  rig.say(rig.a, CheckpointFailed{rig.rep_a, first, "no space left on device"});
  rig.say(rig.b, CheckpointFailed{rig.rep_b, first, "no space left on device"});
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kCheckpointFailing);
  rig.stay(seconds(10));
  EXPECT_GT(rig.newest(rig.id), first);
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
}

}  // namespace
}  // namespace shoal::coordinator
