// A pipeline that is planned again once its devices or lines were measured anew.
#include "coordinator/core/replicas/replanning.h"

#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

// Two equal agents, one stage each; stage 1, with the head, is more work. Then the agent of stage 0
// turns out to be the faster one, so that the two should change places.
struct Replanned : Piped {
  explicit Replanned(bool recut = false) : Piped(recut) {}
  StageIndex stage(ConnectionId agent) { return last<Assign>(agent)->stage; }
  ConnectionId of_stage(StageIndex wanted) { return stage(a) == wanted ? a : b; }
  void measure(ConnectionId agent, double gflops) {
    Device device = state().agents.at(AgentId(agent == a ? 1 : 2)).devices[0];
    device.gflops = gflops;
    say(agent, DeviceMeasured{device});
  }
  void stay(Duration d) {
    for (Duration passed; passed < d; passed = passed + seconds(1)) {
      wait(seconds(1));
      say(a, Heartbeat{}), say(b, Heartbeat{});
    }
  }
  // Of 50 s each, so that a look comes with the third one.
  void train(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      stay(seconds(50));
      const RoundNumber round = job(id).committed_round + 1;
      commit(round), evaluate(round);
      store(id);
    }
  }
  const JobTimers& timers() const { return state().timers.at(id); }
  std::string said(const char* kind) const {
    for (const EventRecord& event : events) {
      if (event.kind == kind) return event.message;
    }
    return {};
  }
};

TEST(Replanning, APlanThatIsMuchBetterByNewMeasurements_IsToldOnceWithBothForecasts) {
  Replanned rig;
  rig.measure(rig.of_stage(0), 20);
  rig.train(3);
  ASSERT_TRUE(rig.timers().compared);
  const PlanComparison compared = *rig.timers().compared;
  EXPECT_GT(compared.best, 1.2 * compared.present);
  EXPECT_EQ(rig.count_events(event_kind::kPlanChanged), 1);
  EXPECT_THAT(rig.said(event_kind::kPlanChanged), HasSubstr(" tokens/s as it is placed and "));
  EXPECT_THAT(rig.said(event_kind::kPlanChanged), HasSubstr("shoal job pause job, then resume"));
  EXPECT_EQ(rig.count_events(event_kind::kPipelineRecut), 0);
  rig.measure(rig.of_stage(1), 11);  // within what a measurement may vary
  rig.train(3);
  EXPECT_EQ(rig.timers().compared->at, compared.at) << "it was not planned again";
  EXPECT_EQ(rig.count_events(event_kind::kPlanChanged), 1);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(Replanning, APlanThatIsAsGood_IsNoNews) {
  Replanned rig;
  rig.measure(rig.of_stage(1), 12);
  rig.train(3);
  ASSERT_TRUE(rig.timers().compared);
  EXPECT_DOUBLE_EQ(rig.timers().compared->best, rig.timers().compared->present);
  EXPECT_EQ(rig.count_events(event_kind::kPlanChanged), 0);
}

TEST(Replanning, WhileAReplicaIsAbsent_NothingIsCompared) {
  Replanned rig;
  rig.measure(rig.of_stage(0), 20);
  rig.stay(seconds(50));
  rig.input(AgentHungUp{rig.a});
  rig.wait(seconds(100));
  EXPECT_FALSE(rig.timers().compared);
}

TEST(Replanning, WithRecut_TheJobIsPlacedAnewAfterItsRoundAndLosesNothing) {
  Replanned rig(true);
  const ConnectionId first = rig.of_stage(0);
  rig.measure(first, 20);
  rig.train(2);
  rig.stay(seconds(50));
  EXPECT_EQ(rig.count_events(event_kind::kPipelineRecut), 1);
  EXPECT_THAT(rig.said(event_kind::kPipelineRecut), HasSubstr("that happens after round 3"));
  EXPECT_EQ(rig.count_events(event_kind::kPlanChanged), 0);
  EXPECT_TRUE(rig.job(rig.id).recuts);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kRecutting);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  rig.commit(3);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing) << "no further round is opened";
  rig.evaluate(3), rig.store(rig.id);
  EXPECT_EQ(rig.stage(first), 1) << "in the same step";
  EXPECT_EQ(rig.last<Assign>(first)->source.kind, SourceKind::kCheckpoint);
  EXPECT_FALSE(rig.job(rig.id).recuts);
  EXPECT_EQ(rig.job(rig.id).committed_round, 3);
  EXPECT_EQ(rig.job(rig.id).epoch, 0);
  rig.load_what_is_told(rig.a), rig.load_what_is_told(rig.b);
  rig.wait(seconds(3));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);

  rig.measure(first, 10), rig.measure(rig.of_stage(0), 20);  // and now the other way round
  rig.train(3);
  EXPECT_EQ(rig.count_events(event_kind::kPlanChanged), 1);
  EXPECT_EQ(rig.count_events(event_kind::kPipelineRecut), 1) << "not twice within half an hour";
}

TEST(Replanning, ARecutWhoseCheckpointCannotBeStored_IsGivenUp) {
  Replanned rig(true);
  const ConnectionId first = rig.of_stage(0);
  rig.measure(first, 20);
  rig.train(2);
  rig.stay(seconds(50));
  ASSERT_TRUE(rig.job(rig.id).recuts);
  rig.commit(3), rig.evaluate(3);
  const CheckpointId checkpoint = rig.newest(rig.id);
  for (const StageIndex stage : {0, 0, 1, 1}) {
    rig.input(CheckpointUploadFailed{checkpoint, stage, "disk full"});
  }
  EXPECT_FALSE(rig.job(rig.id).recuts);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.stage(first), 0);
}

TEST(Replanning, APauseThatComesMeanwhile_IsAPause) {
  Replanned rig(true);
  rig.measure(rig.of_stage(0), 20);
  rig.train(2);
  rig.stay(seconds(50));
  ASSERT_TRUE(rig.job(rig.id).recuts);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(3), rig.evaluate(3), rig.store(rig.id);
  rig.expect_paused_at(rig.id, 3);
  EXPECT_FALSE(rig.job(rig.id).recuts);
}

}  // namespace
}  // namespace shoal::coordinator
