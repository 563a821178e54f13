// Pauses of jobs whose members are more than trainers that hold everything: reducers, owners of
// sharded momentum, stages, joiners; and what becomes of a pause when some of them are lost, or
// when people change their minds.
#include <functional>

#include <gmock/gmock.h>

#include "coordinator/core/checkpoints/momentum.h"
#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/round_facts.h"
#include "job/sync_spec_test_util.h"
#include "outer_opt/core/step/momentum_shards.h"

namespace shoal::coordinator {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// ---- reducers

// The job of a pair, and a third agent that averages for it.
struct Served : Pair {
  Served() : Pair(served_job()) {
    Hello hello{.uid = "uid-r", .name = "r"};
    hello.devices = {Device{.index = 0, .kind = DeviceKind::kReducer, .name = "reducer"}};
    input(AgentHello{r, hello});
    serve();
  }
  static JobSpec served_job() {
    JobSpec spec = long_job();
    change_sync(spec, [](SyncSpec& sync) { sync.topology = Topology::kParamServer; });
    return spec;
  }
  void serve() {
    const Assign assign = last<Assign>(r).value();
    say(r, Loaded{assign.replica, assign.source.key, {}, {}, 0, "127.0.0.1:99", {}});
    rep_r = assign.replica;
  }
  const ConnectionId r{70};
  ReplicaId rep_r;
};

TEST(Pause, LetsReducersGoWithTheOthersAndGetsThemBack) {
  Served rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2);
  EXPECT_THAT(live_reducers(rig.state(), rig.id), testing::ElementsAre(rig.rep_r));
  EXPECT_FALSE(rig.last<Release>(rig.r));
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.last<Release>(rig.r)->replica, rig.rep_r);
  EXPECT_EQ(rig.last<Release>(rig.r)->reason, ReleaseReason::kPaused);
  EXPECT_EQ(rig.state().agents.at(AgentId(3)).state, AgentState::kIdle);

  const ReplicaId before = rig.rep_r;
  ASSERT_TRUE(rig.resume(rig.id).ok());
  rig.serve();
  EXPECT_NE(rig.rep_r, before);
  rig.load_again();
  rig.report_both(3);
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.r);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->replica, rig.rep_r);
  EXPECT_EQ(plan->body.key, rig.key(3));
  rig.finish(3);
  EXPECT_EQ(rig.job(rig.id).committed_round, 3);
}

// ---- sharded outer momentum

struct Sharded : Pair {
  Sharded() : Pair(sharded_job()) {}
  static JobSpec sharded_job() {
    JobSpec spec = long_job();
    change_sync(spec, [](SyncSpec& sync) {
      sync.outer_state = OuterState::kSharded;
      sync.outer = {0.6, 0.8};
    });
    return spec;
  }
  void pause_at_two() {
    commit(1), evaluate(1), store(id);
    ASSERT_TRUE(pause(id).ok());
    commit(2), evaluate(2);
  }
  std::int64_t without_holder(const std::vector<MomentumHolder>& holders) const {
    return outer_opt::values_without_holder(1000, holders);
  }
};

TEST(Pause, GathersShardedMomentumBeforeItsOwnersGo) {
  Sharded rig;
  rig.pause_at_two();
  const WriteCheckpoint asked = rig.last<ToReplica<WriteCheckpoint>>(rig.a)->body;
  EXPECT_EQ(asked.key, rig.key(2));
  EXPECT_EQ(rig.without_holder(asked.momentum), 0);
  for (const ReplicaId owner : {rig.rep_a, rig.rep_b}) {
    EXPECT_TRUE(std::any_of(asked.momentum.begin(), asked.momentum.end(),
                            [&](const MomentumHolder& holder) { return holder.replica == owner; }));
  }
  rig.say(rig.a, CheckpointWritten{rig.rep_a, asked.checkpoint, asked.key, part_files()});
  EXPECT_FALSE(rig.last<Release>(rig.b)) << "its part is stored first";
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);

  ASSERT_TRUE(rig.resume(rig.id).ok());
  rig.load_again();
  const auto holders = momentum_holders(rig.state(), rig.job(rig.id), 0);
  ASSERT_THAT(holders, SizeIs(2));
  for (const MomentumHolder& holder : holders) EXPECT_EQ(holder.count, 1000) << "all of it";
  rig.report_both(3);
  const ReducePlan plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  EXPECT_EQ(rig.without_holder(plan.owner_step->holders), 0);
  EXPECT_EQ(rig.count_events(event_kind::kMomentumLost), 0);
}

// Two keep each part: its owner and the member after it.
TEST(Pause, ShardedMomentumOutlivesAnOwnerThatIsLostWhileItIsGathered) {
  Sharded rig;
  rig.pause_at_two();
  const CheckpointId first = rig.newest(rig.id);
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  rig.say(rig.a, CheckpointFailed{rig.rep_a, first, "a part of the momentum could not be fetched"});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  rig.stay(seconds(15));  // after which it is asked for again
  const WriteCheckpoint again = rig.last<ToReplica<WriteCheckpoint>>(rig.a)->body;
  EXPECT_NE(again.checkpoint, first);
  EXPECT_EQ(rig.without_holder(again.momentum), 0);
  for (const MomentumHolder& holder : again.momentum) EXPECT_EQ(holder.replica, rig.rep_a);
  EXPECT_EQ(rig.count_events(event_kind::kMomentumLost), 0);
  rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 0);
}

// ---- stages

struct LostStage : Piped {
  LostStage() {
    commit(1), evaluate(1), store(id);
    stage_a = last<Assign>(a)->stage, stage_b = last<Assign>(b)->stage;
  }
  void lose(ConnectionId agent) {
    say(agent, ReplicaFailed{last<Assign>(agent)->replica, ReplicaFailure::kTrainerExited, ""});
  }
  StageIndex stage_a = 0, stage_b = 0;
};

TEST(Pause, KeepsACutOfWhichThePartOfALostStageIsStored) {
  LostStage rig;
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2);
  const CheckpointId cut = rig.newest(rig.id);
  rig.upload(cut, rig.stage_b);
  rig.lose(rig.b);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing) << "the other part may still arrive";
  rig.upload(cut, rig.stage_a);
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 0);
}

TEST(Pause, LosesTheRoundWhenTheOtherPartIsLostToo) {
  LostStage rig;
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.commit(2), rig.evaluate(2);
  rig.upload(rig.newest(rig.id), rig.stage_b);
  rig.lose(rig.b), rig.lose(rig.a);
  rig.expect_paused_at(rig.id, 1);
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 1);
}

// Its round is open and cannot be finished; the cut of the one before is still being stored.
TEST(Pause, OfAJobWithoutAStageWaitsForACutThatIsOnItsWay) {
  LostStage rig;
  rig.commit(2), rig.evaluate(2);
  const CheckpointId cut = rig.newest(rig.id);
  rig.upload(cut, rig.stage_b);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.lose(rig.b);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  EXPECT_FALSE(rig.last<Release>(rig.a));
  rig.upload(cut, rig.stage_a);
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 0);
}

TEST(Pipeline, ALostStageIsRestoredFromACutThatIsOnItsWay) {
  LostStage rig;
  rig.commit(2), rig.evaluate(2);
  const CheckpointId cut = rig.newest(rig.id);
  rig.upload(cut, rig.stage_b);
  rig.lose(rig.b);
  rig.say(rig.a, Heartbeat{}), rig.say(rig.b, Heartbeat{});
  rig.wait(seconds(2));  // its device has rested
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 0);
  rig.upload(cut, rig.stage_a);
  EXPECT_EQ(rig.last<Assign>(rig.b)->source.checkpoint, cut);
  rig.load_what_is_told(rig.b);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
}

TEST(Pipeline, ALostStageGoesBackWhenTheCutOnItsWayFails) {
  LostStage rig;
  rig.commit(2), rig.evaluate(2);
  const CheckpointId cut = rig.newest(rig.id);
  rig.upload(cut, rig.stage_b);
  rig.lose(rig.b);
  rig.input(CheckpointUploadFailed{cut, rig.stage_a, "disk full"});
  rig.say(rig.a, Heartbeat{}), rig.say(rig.b, Heartbeat{});
  rig.wait(seconds(2));
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 1);
}

// ---- joiners

TEST(Pause, LetsAJoinerGoThatIsStillLoading) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  const ConnectionId c = rig.join("c");
  ASSERT_EQ(rig.last<Assign>(c)->source.kind, SourceKind::kPeer);
  EXPECT_EQ(rig.last<Assign>(c)->record.step, Steps(10));
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.report_both(2);
  rig.stay(seconds(6));  // for which a round waits for it
  rig.finish(2), rig.evaluate(2), rig.store(rig.id);
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.last<Release>(c)->replica, rig.last<Assign>(c)->replica);
}

// It has trained nothing, and is the only one left who has the state: the step is that of the
// round.
TEST(Pause, AJoinerWritesTheCheckpointWhenNobodyElseIsLeft) {
  Pair rig;
  rig.commit(1), rig.evaluate(1), rig.store(rig.id);
  const ConnectionId c = rig.join("c");
  const ReplicaId joiner = rig.load_what_is_told(c);
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.report_both(2);
  ASSERT_TRUE(rig.last<ToReplica<ReducePlan>>(c));
  rig.vote(c, joiner, rig.key(2), 1);
  rig.finish(2);
  rig.applied(c, joiner, rig.key(2), {11, 11});
  const CommitRound commit = rig.last<ToReplica<CommitRound>>(c)->body;
  EXPECT_TRUE(commit.last);
  EXPECT_EQ(commit.record.step, Steps(20));
  rig.evaluate(2);
  rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kTrainerExited, ""});
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  EXPECT_EQ(rig.last<ToReplica<WriteCheckpoint>>(c)->body.key, rig.key(2));
  const CheckpointId cut = rig.store(rig.id);
  EXPECT_EQ(rig.state().checkpoints.at(cut).step, Steps(20));
  rig.expect_paused_at(rig.id, 2);
  ASSERT_TRUE(rig.resume(rig.id).ok());
  EXPECT_EQ(rig.last<Assign>(c)->record.step, Steps(20));
}

// ---- people

TEST(Pause, CanBecomeACancellationInEveryPhase) {
  const auto reports = [](Pair& rig) { rig.report_both(2); };
  const auto votes = [](Pair& rig) {
    rig.report_both(2);
    rig.vote(rig.a, rig.rep_a, rig.key(2), 1);
  };
  const auto finishes = [](Pair& rig) { rig.commit(2); };
  const auto evaluates = [](Pair& rig) { rig.commit(2), rig.store(rig.id); };
  const auto stalls = [](Pair& rig) { rig.say(rig.b, Goodbye{"stopped"}); };
  const auto pauses = [](Pair& rig) { rig.commit(2), rig.evaluate(2), rig.store(rig.id); };
  const auto gathers = [pauses](Pair& rig) {
    pauses(rig);
    EXPECT_TRUE(rig.resume(rig.id).ok());
  };
  const std::vector<std::pair<std::function<void(Pair&)>, JobPhase>> cases{
      {[](Pair&) {}, JobPhase::kTraining}, {reports, JobPhase::kTraining},
      {votes, JobPhase::kTraining},        {finishes, JobPhase::kFinalizing},
      {evaluates, JobPhase::kFinalizing},  {stalls, JobPhase::kFinalizing},
      {pauses, JobPhase::kPaused},         {gathers, JobPhase::kGathering}};
  for (const auto& [go, phase] : cases) {
    JobSpec spec = long_job();
    spec.checkpoint.every_rounds = 2;
    Pair rig(spec);
    rig.commit(1), rig.evaluate(1);
    ASSERT_TRUE(rig.pause(rig.id).ok());
    go(rig);
    ASSERT_EQ(rig.job(rig.id).phase, phase);
    rig.input(CancelJob{RequestId{9}, rig.id});
    EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCancelled);
    EXPECT_EQ(rig.job(rig.id).reason, JobReason::kCancelledByUser);
    EXPECT_THAT(live_replicas(rig.state(), rig.id), IsEmpty());
    EXPECT_EQ(current_round(rig.state(), rig.job(rig.id)), nullptr);
    for (const auto& [id, checkpoint] : rig.state().checkpoints) {
      EXPECT_EQ(checkpoint.state, CheckpointState::kStored) << "nothing is written any more";
    }
    rig.stay(seconds(60));
    EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCancelled);
    EXPECT_TRUE(rig.submit(spec).ok()) << "its name is free";
  }
}

TEST(Resume, PausedAgainWhileItLoadsLosesNothing) {
  Pair rig;
  rig.pause_after_two();
  for (const bool warming : {false, true}) {
    ASSERT_TRUE(rig.resume(rig.id).ok());
    if (warming) rig.stay(seconds(3));
    EXPECT_EQ(rig.job(rig.id).phase, warming ? JobPhase::kWarming : JobPhase::kGathering);
    ASSERT_TRUE(rig.pause(rig.id).ok());
    rig.expect_paused_at(rig.id, 2);
  }
  EXPECT_EQ(rig.job(rig.id).epoch, 0);
  EXPECT_EQ(rig.count_events(event_kind::kJobRolledBack), 0);
  ASSERT_TRUE(rig.resume(rig.id).ok());
  rig.load_again();
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.key, rig.key(3));
}

}  // namespace
}  // namespace shoal::coordinator
