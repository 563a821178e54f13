// Jobs that people remove: what goes with them, what holds them, and that they stay gone.
#include "coordinator/core/removal.h"

#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Ended : Pair {
  Ended() {
    for (RoundNumber round = 1; round <= 2; ++round) {
      commit(round), evaluate(round);
      all.push_back(store(id));
    }
  }
  void end() { input(CancelJob{RequestId{9}, id}); }
  Reply remove(std::vector<CheckpointRecord> aside = {}) {
    input(RemoveJob{RequestId{9}, id, std::move(aside)});
    return replies.back();
  }
  void pin(CheckpointId checkpoint, CheckpointVerb verb) {
    input(CommandCheckpoint{RequestId{9}, state().checkpoints.at(checkpoint), verb, false});
  }
  std::vector<CheckpointId> all;
};

TEST(Removal, AJobGoesWithItsCheckpoints) {
  Ended rig;
  EXPECT_EQ(rig.remove().result.error().code, Code::kConflict) << "it trains";
  rig.end();
  CheckpointRecord aside = rig.state().checkpoints.at(rig.all[0]);
  aside.id = CheckpointId(1000), aside.state = CheckpointState::kFailed;
  EXPECT_EQ(*rig.remove({aside}).result, rig.id);
  EXPECT_THAT(rig.deleted, ElementsAre(rig.all[0], rig.all[1], aside.id));
  EXPECT_THAT(rig.state().checkpoints, IsEmpty());
  EXPECT_EQ(rig.job(rig.id).removed_at, rig.now);
  EXPECT_EQ(rig.count_events(event_kind::kJobRemoved), 1);
  EXPECT_EQ(rig.events.back().job, JobId()) << "the events of the job go, too";
  EXPECT_EQ(rig.remove().result.error().code, Code::kNotFound);
  rig.restart();
  EXPECT_EQ(rig.remove().result.error().code, Code::kNotFound);
}

TEST(Removal, WhatHoldsAJobIsNamed) {
  Ended rig;
  JobSpec next = small_job("next");
  next.model.init = to_string(rig.all[0]);
  const JobId other = *rig.submit(next);
  rig.pin(rig.all[1], CheckpointVerb::kPin);
  rig.end();
  const Reply refused = rig.remove();
  EXPECT_EQ(refused.result.error().code, Code::kConflict);
  ASSERT_EQ(refused.fields.size(), 3u);
  EXPECT_EQ(refused.fields[0].pointer, "/checkpoints/" + to_string(rig.all[0]));
  EXPECT_THAT(refused.fields[0].detail, HasSubstr("next"));
  EXPECT_THAT(refused.fields[1].detail, HasSubstr("loads it now"))
      << "on the devices that are free";
  EXPECT_THAT(refused.fields[2].detail, HasSubstr("pinned"));
  EXPECT_THAT(rig.deleted, IsEmpty());
  rig.input(CancelJob{RequestId{9}, other});
  EXPECT_FALSE(rig.remove().result.ok());
  rig.pin(rig.all[1], CheckpointVerb::kUnpin);
  EXPECT_TRUE(rig.remove().result.ok());
}

// An agent that was away has trainers of it: they are no proof of a database that is too old.
TEST(Removal, WhoComesLateBringsNoJobBack) {
  Ended rig;
  HeldReplica held = held_replicas(rig.state(), {rig.rep_a}).front();
  rig.end();
  ASSERT_TRUE(rig.remove().result.ok());
  held.key.round = 9;
  Hello hello;
  hello.uid = "uid-late", hello.name = "late", hello.host = "127.0.0.1";
  hello.replicas = {held};
  rig.input(AgentHello{ConnectionId{900}, hello});
  EXPECT_EQ(rig.count_events(event_kind::kJobRestored), 0);
  EXPECT_THAT(rig.state().restoring, IsEmpty());
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCancelled);
  EXPECT_FALSE(rig.state().replicas.contains(rig.rep_a));
}

TEST(Removal, ItsNameIsFree) {
  Ended rig;
  rig.end();
  ASSERT_TRUE(rig.remove().result.ok());
  EXPECT_TRUE(rig.submit(small_job()).ok());
}

}  // namespace
}  // namespace shoal::coordinator
