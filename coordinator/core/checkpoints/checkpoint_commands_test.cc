// What people are told when they pin or remove a checkpoint.
#include "coordinator/core/checkpoints/checkpoint_commands.h"

#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Asked : Pair {
  Asked() {
    for (RoundNumber round = 1; round <= 2; ++round) {
      commit(round), evaluate(round);
      (round == 1 ? older : newer) = store(id);
    }
  }
  Reply ask(CheckpointId checkpoint, CheckpointVerb verb, bool force = false) {
    return ask(state().checkpoints.at(checkpoint), verb, force);
  }
  Reply ask(const CheckpointRecord& record, CheckpointVerb verb, bool force = false) {
    input(CommandCheckpoint{RequestId{9}, record, verb, force});
    return replies.back();
  }
  std::vector<std::string> refused(const Reply& reply) const {
    EXPECT_EQ(reply.result.ok() ? Code::kInternal : reply.result.error().code, Code::kConflict);
    std::vector<std::string> pointers;
    for (const FieldError& field : reply.fields) pointers.push_back(field.pointer);
    return pointers;
  }
  CheckpointId older, newer;
};

TEST(CheckpointCommands, PinAndUnpinAreToldOnce) {
  Asked rig;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(*rig.ask(rig.older, CheckpointVerb::kPin).result, rig.id);
  EXPECT_TRUE(rig.state().checkpoints.at(rig.older).pinned);
  EXPECT_EQ(rig.count_events(event_kind::kCheckpointPinned), 1);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(rig.ask(rig.older, CheckpointVerb::kUnpin).result.ok());
  EXPECT_FALSE(rig.state().checkpoints.at(rig.older).pinned);
  EXPECT_EQ(rig.count_events(event_kind::kCheckpointUnpinned), 1);
}

TEST(CheckpointCommands, WhatNobodyNeedsIsRemoved) {
  Asked rig;
  const CheckpointRecord before = rig.state().checkpoints.at(rig.older);
  EXPECT_EQ(*rig.ask(rig.older, CheckpointVerb::kRemove).result, rig.id);
  EXPECT_FALSE(rig.state().checkpoints.contains(rig.older));
  EXPECT_THAT(rig.deleted, ElementsAre(rig.older));
  EXPECT_EQ(rig.ask(before, CheckpointVerb::kPin).result.error().code, Code::kNotFound);
}

TEST(CheckpointCommands, ARefusalNamesEverythingThatWouldBreak) {
  Asked rig;
  EXPECT_THAT(rig.refused(rig.ask(rig.newer, CheckpointVerb::kRemove)), ElementsAre("/newest_cut"));
  rig.ask(rig.older, CheckpointVerb::kPin);
  JobSpec next = small_job("next");
  next.model.init = to_string(rig.older);
  ASSERT_TRUE(rig.submit(next).ok());
  const Reply reply = rig.ask(rig.older, CheckpointVerb::kRemove);
  EXPECT_THAT(rig.refused(reply), ElementsAre("/pinned", "/base"));
  EXPECT_THAT(reply.fields[1].detail, HasSubstr("next"));
  rig.input(CancelJob{RequestId{9}, rig.id});
  EXPECT_THAT(rig.refused(rig.ask(rig.newer, CheckpointVerb::kRemove)), ElementsAre("/result"));
  EXPECT_THAT(rig.deleted, IsEmpty());
}

TEST(CheckpointCommands, ForceRemovesWhatIsNeeded) {
  Asked rig;
  EXPECT_TRUE(rig.ask(rig.newer, CheckpointVerb::kRemove, true).result.ok());
  EXPECT_THAT(rig.deleted, ElementsAre(rig.newer));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining) << "the job continues";
}

TEST(CheckpointCommands, OneThatIsNotStoredIsNeitherPinnedNorRemoved) {
  Asked rig;
  rig.commit(3), rig.evaluate(3);
  const CheckpointId pending = rig.newest(rig.id);
  EXPECT_THAT(rig.refused(rig.ask(pending, CheckpointVerb::kPin)), IsEmpty());
  EXPECT_THAT(rig.refused(rig.ask(pending, CheckpointVerb::kRemove, true)), IsEmpty());
}

// The core does not keep damaged ones; their files still take space.
TEST(CheckpointCommands, OneThatWasSetAsideIsRemovedByItsRecord) {
  Asked rig;
  CheckpointRecord aside = rig.state().checkpoints.at(rig.older);
  aside.id = CheckpointId(1000), aside.state = CheckpointState::kFailed;
  EXPECT_THAT(rig.refused(rig.ask(aside, CheckpointVerb::kPin)), IsEmpty());
  EXPECT_EQ(*rig.ask(aside, CheckpointVerb::kRemove).result, rig.id);
  EXPECT_THAT(rig.deleted, ElementsAre(aside.id));
  EXPECT_FALSE(rig.state().checkpoints.contains(aside.id));
  aside.state = CheckpointState::kDeleted;
  EXPECT_THAT(rig.refused(rig.ask(aside, CheckpointVerb::kRemove)), IsEmpty());
}

}  // namespace
}  // namespace shoal::coordinator
