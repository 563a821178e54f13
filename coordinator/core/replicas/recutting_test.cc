// A pipeline that starts again on another cut, with the agents played by hand: when its cut
// changes, what its stages load, and what happens if something comes between.
#include "coordinator/core/replicas/recutting.h"

#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/replicas.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Room for a stage of most of the model, but not for two stages, so that no device gets both (a
// half takes 3.0 or 3.4 MB); for a half alone; for anything.
constexpr Bytes kMostOfIt{6'300'000}, kHalfOfIt{3'700'000}, kAnything = mebibytes(4096);

JobSpec six_blocks() {
  JobSpec spec = long_job();
  spec.model.layers = 6;
  spec.swarm.stages = 2;
  spec.swarm.min_replicas = 1;
  spec.swarm.recut = true;
  spec.eval.every_rounds = 0;
  return spec;
}

JobSpec of_any_number() {
  JobSpec spec = six_blocks();
  spec.swarm.stages = 0;
  return spec;
}

// Two equal agents train two stages of it, cut in the middle, and one round is stored.
struct Recut : Operated<Rig> {
  explicit Recut(const JobSpec& spec = six_blocks(), Bytes memory = kMostOfIt,
                 std::int32_t speaks = kProtocolVersion) {
    device_memory = memory;
    protocol = speaks;
    adopt(spec);
    a = join("a"), b = join("b");
    stay(seconds(3));
    begin();
    commit();
    store(id);
  }
  void stay(Duration d) {
    for (Duration passed; passed < d; passed = passed + seconds(1)) {
      wait(seconds(1));
      say(a, Heartbeat{}), say(b, Heartbeat{});
    }
  }
  void begin() { begin_with({7, 7}); }
  void begin_with(Digest anchor) {
    for (const auto agent : {a, b}) {
      const StateSource source = last<Assign>(agent)->source;
      say(agent, Loaded{last<Assign>(agent)->replica, source.key, anchor,
                        source.momentum ? source.momentum : Digest{8, 8}, 1000,
                        "127.0.0.1:" + std::to_string(7100 + agent.n)});
    }
    stay(seconds(3));
  }
  void commit() {
    const RoundKey key = next_key(job(id));
    const auto both = [&](const auto& act) {
      for (const auto agent : {a, b}) act(agent, last<Assign>(agent)->replica);
    };
    both([&](auto agent, auto replica) { report(agent, replica, key); });
    both([&](auto agent, auto replica) { vote(agent, replica, key, 1); });
    both([&](auto agent, auto replica) { applied(agent, replica, key, {11, 11}); });
  }
  // After a round, with a checkpoint of it.
  CheckpointId pause_after_round() {
    EXPECT_TRUE(pause(id).ok());
    commit();
    const CheckpointId checkpoint = store(id);
    EXPECT_EQ(job(id).phase, JobPhase::kPaused);
    return checkpoint;
  }
  void measure(ConnectionId agent, double gflops, Bytes memory = kMostOfIt) {
    Device device = state().agents.at(AgentId(agent == a ? 1 : 2)).devices[0];
    device.gflops = gflops;
    device.memory = memory;
    say(agent, DeviceMeasured{device});
  }
  void resume_and_place() {
    ASSERT_TRUE(resume(id).ok());
    stay(seconds(3));
  }
  // Paused at `checkpoint`; then one agent turns out to be much faster, and it is placed again.
  CheckpointId recut() {
    const CheckpointId checkpoint = pause_after_round();
    measure(a, 100);
    resume_and_place();
    return checkpoint;
  }
  void fail_on_new_cut(ReplicaFailure failure = ReplicaFailure::kInternal) {
    say(a, ReplicaFailed{last<Assign>(a)->replica, failure, "no kernel for this shape"});
  }
  std::vector<UnitRange> cut() const { return cut_of(job(id)); }
  Assign assigned(StageIndex stage) {
    const Assign of_a = *last<Assign>(a);
    return of_a.stage == stage ? of_a : *last<Assign>(b);
  }
  std::vector<std::string> said(const char* kind) const {
    std::vector<std::string> messages;
    for (const EventRecord& event : events) {
      if (event.kind == kind) messages.push_back(event.message);
    }
    return messages;
  }
  // The agents return with what they run, to a coordinator with these tables.
  void come_back(const std::vector<HeldReplica>& held) {
    const char* names[] = {"a", "b"};
    for (std::size_t i = 0; i < 2; ++i) {
      Hello hello{.uid = std::string("uid-") + names[i], .name = names[i]};
      hello.incarnation = Incarnation{1};
      hello.devices = state().agents.at(AgentId(i + 1)).devices;
      hello.replicas = {held[i]};
      (i == 0 ? a : b) = ConnectionId{801 + i};
      input(AgentHello{ConnectionId{801 + i}, hello});
    }
  }

  const std::vector<UnitRange> halves{{0, 4}, {4, 8}};
  ConnectionId a, b;
  JobId id{1};
};

TEST(Recutting, AfterAPause_ItGetsTheCutThatSuitsItsDevices) {
  Recut rig;
  ASSERT_EQ(rig.cut(), rig.halves);
  const CheckpointId checkpoint = rig.recut();
  ASSERT_THAT(rig.cut(), SizeIs(2)) << "swarm.stages is a number";
  EXPECT_LT(rig.cut()[0].last, 4) << "the slow agent has less";
  EXPECT_EQ(rig.job(rig.id).recut_from, checkpoint);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
  EXPECT_EQ(rig.job(rig.id).epoch, 1) << "its rounds so far were of other stages";
  EXPECT_THAT(rig.state().rounds, IsEmpty());
  ASSERT_THAT(rig.said(event_kind::kPipelineRecut), SizeIs(1));
  EXPECT_THAT(rig.said(event_kind::kPipelineRecut)[0],
              HasSubstr("before into 2 stages (units 0 to 3, 4 to 7); it continues from"));
}

TEST(Recutting, EachStageLoadsThePartsThatHaveItsUnits) {
  Recut rig;
  const CheckpointId checkpoint = rig.recut();
  const Assign first = rig.assigned(0), second = rig.assigned(1);
  for (const Assign& assign : {first, second}) {
    EXPECT_EQ(assign.source.kind, SourceKind::kCheckpoint);
    EXPECT_EQ(assign.source.checkpoint, checkpoint);
    EXPECT_FALSE(assign.source.anchor) << "no record has the digests of this stage";
    EXPECT_EQ(assign.cut, rig.cut());
    EXPECT_EQ(assign.checkpoint_first, 0);
  }
  EXPECT_EQ(first.checkpoint_parts, 1);
  EXPECT_EQ(second.checkpoint_parts, 2);
}

TEST(Recutting, TheFirstThatLoadsDefinesAStageAndItTrainsOnceAllAreKnown) {
  Recut rig;
  rig.recut();
  rig.load(rig.a, {3, 3});
  rig.stay(seconds(3));
  EXPECT_EQ(current_round(rig.state(), rig.job(rig.id)), nullptr) << "a stage is not known yet";
  EXPECT_NE(rig.job(rig.id).phase, JobPhase::kTraining);
  rig.load(rig.b, {4, 4});
  rig.stay(seconds(3));
  ASSERT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  const StageIndex of_a = rig.last<Assign>(rig.a)->stage;
  EXPECT_EQ(stage_of(rig.job(rig.id), of_a).anchor, (Digest{3, 3}));
  EXPECT_EQ(stage_of(rig.job(rig.id), 1 - of_a).anchor, (Digest{4, 4}));
  ASSERT_TRUE(rig.last<ToReplica<KeepRecord>>(rig.a));
  EXPECT_THAT(rig.last<ToReplica<KeepRecord>>(rig.a)->body.record.proof.anchors, SizeIs(2))
      << "that it could not be given when it had loaded";

  rig.commit();
  EXPECT_EQ(rig.job(rig.id).committed_round, 3);
  EXPECT_FALSE(rig.job(rig.id).recut_from);
  const CheckpointId next = rig.store(rig.id);
  EXPECT_EQ(rig.state().checkpoints.at(next).parts[1].units, rig.cut()[1]);
}

TEST(Recutting, WithoutTheOption_TheCutStays) {
  JobSpec spec = six_blocks();
  spec.swarm.recut = false;
  Recut rig(spec);
  rig.recut();
  EXPECT_EQ(rig.cut(), rig.halves);
  EXPECT_EQ(rig.assigned(1).checkpoint_parts, 0);
  EXPECT_TRUE(rig.assigned(1).source.anchor);
  EXPECT_THAT(rig.said(event_kind::kPipelineRecut), IsEmpty());
}

TEST(Recutting, ACutThatIsHardlyBetter_IsNotWorthIt) {
  Recut rig;
  rig.pause_after_round();
  rig.measure(rig.a, 11);
  rig.resume_and_place();
  EXPECT_EQ(rig.cut(), rig.halves);
  EXPECT_EQ(rig.job(rig.id).epoch, 0);
}

TEST(Recutting, IsWorthItWhereItIsMuchBetterOrTheOnlyOne) {
  PlacementDecision kept, other;
  kept.reason = other.reason = PlacementReason::kPlaced;
  kept.cut = {{0, 2}, {2, 4}};
  other.cut = {{0, 1}, {1, 4}};
  kept.forecast.tokens_per_s = 100;
  other.forecast.tokens_per_s = 119;
  EXPECT_FALSE(is_worth_recut(kept, other));
  other.forecast.tokens_per_s = 120;
  EXPECT_TRUE(is_worth_recut(kept, other));
  kept.forecast.tokens_per_s = 0;
  EXPECT_FALSE(is_worth_recut(kept, other)) << "no speed is known";
  kept.reason = PlacementReason::kTooFewDevices;
  EXPECT_TRUE(is_worth_recut(kept, other));
  other.reason = PlacementReason::kTooFewDevices;
  EXPECT_FALSE(is_worth_recut(kept, other));
  other.reason = PlacementReason::kPlaced;
  other.cut = kept.cut;
  EXPECT_FALSE(is_worth_recut(kept, other));
}

TEST(Recutting, AgentsOfTheProtocolBefore_KeepTheCut) {
  Recut rig(six_blocks(), kMostOfIt, kFirstWithOtherCuts - 1);
  rig.recut();
  EXPECT_EQ(rig.cut(), rig.halves);
  EXPECT_THAT(why_cut_stays(rig.state(), rig.job(rig.id)),
              HasSubstr("the agents are of a version"));
}

TEST(Recutting, WithoutAnAgentThatCanLoadIt_TheJobGoesBackToTheCutOfTheCheckpoint) {
  Recut rig;
  rig.recut();
  rig.protocol = kFirstWithOtherCuts - 1;
  rig.a = rig.join("a"), rig.b = rig.join("b");
  EXPECT_EQ(rig.cut(), rig.halves);
  EXPECT_FALSE(rig.job(rig.id).recut_from);
  rig.stay(seconds(8));
  for (const auto agent : {rig.a, rig.b}) {
    ASSERT_TRUE(rig.last<Assign>(agent)) << "the job goes on";
    EXPECT_EQ(rig.last<Assign>(agent)->checkpoint_parts, 0);
  }
}

TEST(Recutting, AJobSaysWhyItsCutStays) {
  Recut rig;
  JobRecord job = rig.job(rig.id);
  EXPECT_EQ(why_cut_stays(rig.state(), job), "");
  change_sync(job.spec, [](SyncSpec& sync) { sync.outer_state = OuterState::kSharded; });
  EXPECT_THAT(why_cut_stays(rig.state(), job), HasSubstr("sync.outer_state"));
  job = rig.job(rig.id);
  job.spec.trainer.kind = TrainerKind::kPython;
  EXPECT_THAT(why_cut_stays(rig.state(), job), HasSubstr("program"));
  Snapshot older = rig.snapshot();
  for (CheckpointPart& part : older.checkpoints.at(0).parts) part.units = {};
  rig.restore(older);
  EXPECT_THAT(why_cut_stays(rig.state(), rig.job(rig.id)), HasSubstr("did not record its cut"));
}

// More memory makes the whole model fit on each device; less makes that impossible again.
TEST(Recutting, WithAutomaticStages_TheirNumberChangesToo) {
  Recut rig(of_any_number(), kHalfOfIt);
  ASSERT_EQ(rig.cut(), rig.halves);
  rig.pause_after_round();
  rig.measure(rig.a, 10, kAnything), rig.measure(rig.b, 10, kAnything);
  rig.resume_and_place();
  ASSERT_EQ(rig.cut(), (std::vector<UnitRange>{{0, 8}}));
  EXPECT_EQ(rig.last<Assign>(rig.a)->checkpoint_parts, 2);
  EXPECT_EQ(rig.last<Assign>(rig.b)->checkpoint_parts, 2);
  rig.begin();
  ASSERT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);

  const CheckpointId whole = rig.pause_after_round();
  rig.measure(rig.a, 10, kHalfOfIt), rig.measure(rig.b, 10, kHalfOfIt);
  rig.resume_and_place();
  EXPECT_EQ(rig.cut(), rig.halves) << "no device can serve the present cut";
  EXPECT_EQ(rig.job(rig.id).recut_from, whole);
  EXPECT_EQ(rig.last<Assign>(rig.a)->checkpoint_parts, 1);
  rig.begin();
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

// One of the two is wrong. On the cut of the checkpoint, the record says which.
TEST(Recutting, AReplicaThatLoadsOtherBitsThanTheFirstOfItsStage_EndsTheNewCut) {
  Recut rig(of_any_number(), kHalfOfIt);
  const CheckpointId checkpoint = rig.pause_after_round();
  rig.measure(rig.a, 10, kAnything), rig.measure(rig.b, 10, kAnything);
  rig.resume_and_place();
  ASSERT_THAT(rig.cut(), SizeIs(1));
  rig.measure(rig.a, 10, kHalfOfIt), rig.measure(rig.b, 10, kHalfOfIt);  // one stage each, later
  rig.load(rig.a, {3, 3});
  const ReplicaId odd = rig.load(rig.b, {4, 4});
  EXPECT_EQ(rig.replicas_.at(odd).failure, ReplicaFailure::kDigestMismatch);
  EXPECT_EQ(rig.cut(), rig.halves);
  EXPECT_FALSE(rig.job(rig.id).recut_from);
  EXPECT_TRUE(rig.state().checkpoints.contains(checkpoint)) << "it is not set aside";
  EXPECT_THAT(why_cut_stays(rig.state(), rig.job(rig.id)), HasSubstr(to_string(checkpoint)));
  rig.stay(seconds(5));
  EXPECT_EQ(rig.assigned(0).checkpoint_parts, 0);
  EXPECT_EQ(rig.assigned(1).source.anchor, (Digest{11, 11})) << "which the record has";
  rig.begin_with({11, 11});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(Recutting, ATrainerThatFailsInternallyOnTheNewCut_EndsIt) {
  for (const bool loaded : {false, true}) {
    Recut rig;
    const CheckpointId checkpoint = rig.recut();
    if (loaded) rig.begin();
    rig.fail_on_new_cut();
    EXPECT_EQ(rig.cut(), rig.halves);
    EXPECT_FALSE(rig.job(rig.id).recut_from);
    EXPECT_EQ(rig.job(rig.id).committed_round, 2) << "nothing that was committed is lost";
    EXPECT_TRUE(rig.state().checkpoints.contains(checkpoint));
    EXPECT_THAT(why_cut_stays(rig.state(), rig.job(rig.id)), HasSubstr(to_string(checkpoint)));
    ASSERT_THAT(rig.said(event_kind::kPipelineRecut), SizeIs(2));
    EXPECT_THAT(rig.said(event_kind::kPipelineRecut)[1], HasSubstr("no kernel for this shape"));
    rig.stay(seconds(20));
    rig.begin_with({11, 11});
    EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  }
}

TEST(Recutting, OtherFailuresOfATrainer_KeepTheNewCut) {
  Recut rig;
  const CheckpointId checkpoint = rig.recut();
  rig.fail_on_new_cut(ReplicaFailure::kTrainerExited);
  EXPECT_NE(rig.cut(), rig.halves);
  EXPECT_EQ(rig.job(rig.id).recut_from, checkpoint);
}

TEST(Recutting, AnInternalFailureOnTheOldCut_RefusesNothing) {
  Recut rig;
  rig.fail_on_new_cut();
  EXPECT_THAT(rig.state().recuts_refused, IsEmpty());
}

TEST(Recutting, ARefusalEnds_WithItsReason) {
  Recut rig;
  rig.recut();
  rig.fail_on_new_cut();
  const auto is_refused = [&](const auto& change, Duration later = seconds(1)) {
    State state = rig.state();
    change(state);
    Transaction tx(state, rig.now + later);
    end_recut_refusal(tx, rig.id);
    return state.recuts_refused.contains(rig.id);
  };
  const auto device = [](State& state) -> Device& {
    return state.agents.at(AgentId(1)).devices[0];
  };
  EXPECT_TRUE(is_refused([](State&) {}));
  EXPECT_TRUE(is_refused([&](State& state) { device(state).gflops *= 0.95; })) << "noise";
  EXPECT_TRUE(is_refused([](State& state) { state.presence.erase(AgentId(2)); }));
  EXPECT_FALSE(is_refused([&](State& state) { device(state).gflops *= 0.5; }));
  EXPECT_FALSE(is_refused([](State& state) {
    AgentRecord third = state.agents.at(AgentId(2));
    third.id = AgentId(3);
    state.agents.put(third.id, third);
    state.presence.put(third.id, {.connected = true});
  }));
  EXPECT_FALSE(is_refused([&](State& state) { ++state.jobs.at(rig.id).committed_round; }));
  EXPECT_TRUE(is_refused([](State&) {}, kRecutRefusedFor - seconds(1)));
  EXPECT_FALSE(is_refused([](State&) {}, kRecutRefusedFor));
}

TEST(Recutting, ARefusalEndsWithItsJob) {
  Recut rig;
  rig.recut();
  rig.fail_on_new_cut();
  ASSERT_TRUE(rig.state().recuts_refused.contains(rig.id));
  rig.input(CancelJob{RequestId{9}, rig.id});
  EXPECT_THAT(rig.state().recuts_refused, IsEmpty());
}

TEST(Recutting, BeforeTheNextCommit_AJoinerLoadsTheCheckpoint) {
  Recut rig(of_any_number(), kHalfOfIt);
  const CheckpointId checkpoint = rig.pause_after_round();
  rig.measure(rig.a, 10, kAnything), rig.measure(rig.b, 10, kAnything);
  rig.resume_and_place();
  rig.begin();
  const auto source = choose_source(rig.state(), rig.job(rig.id), 0);
  ASSERT_TRUE(source);
  EXPECT_EQ(source->kind, SourceKind::kCheckpoint) << "though two peers have the state";
  EXPECT_EQ(source->checkpoint, checkpoint);
  EXPECT_EQ(source->anchor, rig.job(rig.id).stages[0].anchor);
  rig.commit();
  EXPECT_EQ(choose_source(rig.state(), rig.job(rig.id), 0)->kind, SourceKind::kPeer);
}

TEST(Recutting, APauseBeforeTheNextCommit_RestoresTheCutOfTheCheckpoint) {
  Recut rig;
  const CheckpointId checkpoint = rig.recut();
  rig.load(rig.a, {3, 3});
  ASSERT_TRUE(rig.pause(rig.id).ok());
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kPaused);
  EXPECT_EQ(rig.cut(), rig.halves);
  EXPECT_FALSE(rig.job(rig.id).recut_from);
  const auto& parts = rig.state().checkpoints.at(checkpoint).parts;
  for (std::size_t stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(rig.job(rig.id).stages[stage].anchor, parts[stage].anchor);
  }
}

TEST(Recutting, ACoordinatorThatRestartsMeanwhile_GoesOnWithTheNewCut) {
  Recut rig;
  const CheckpointId checkpoint = rig.recut();
  const std::vector<UnitRange> cut = rig.cut();
  const Assign of_a = *rig.last<Assign>(rig.a), of_b = *rig.last<Assign>(rig.b);
  rig.load(rig.a, {3, 3});
  rig.restart();
  rig.a = rig.join("a", Incarnation{1}, {of_a.replica});
  rig.b = rig.join("b", Incarnation{1}, {of_b.replica});
  EXPECT_EQ(rig.cut(), cut);
  EXPECT_EQ(rig.job(rig.id).recut_from, checkpoint);
  rig.say(rig.b, Loaded{of_b.replica, of_b.source.key, {4, 4}, {8, 8}, 1000, "127.0.0.1:7102"});
  rig.stay(seconds(3));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(stage_of(rig.job(rig.id), of_a.stage).anchor, (Digest{3, 3}));
  EXPECT_EQ(stage_of(rig.job(rig.id), of_b.stage).anchor, (Digest{4, 4}));
}

TEST(Recutting, ABackupOfBefore_TakesTheCutOfTheReplicas) {
  Recut rig;
  rig.pause_after_round();
  Snapshot backup = rig.snapshot();
  backup.counters.backup_at = rig.now;
  rig.measure(rig.a, 100);
  rig.resume_and_place();
  rig.begin();
  rig.commit();
  ASSERT_EQ(rig.job(rig.id).committed_round, 3);
  const std::vector<UnitRange> cut = rig.cut();
  const auto held = held_replicas(
      rig.state(), {rig.last<Assign>(rig.a)->replica, rig.last<Assign>(rig.b)->replica});
  rig.restore(backup);
  ASSERT_EQ(rig.cut(), rig.halves);
  rig.come_back(held);
  rig.stay(seconds(12));
  EXPECT_EQ(rig.job(rig.id).committed_round, 3);
  EXPECT_EQ(rig.cut(), cut);
  EXPECT_FALSE(rig.job(rig.id).recut_from);
}

// An earlier version stored its checkpoint, which does not say of which cut it is.
TEST(Recutting, ABackupOfAnEarlierVersion_RecordsTheCutOfItsCheckpointsBeforeAnother) {
  Recut rig;
  const CheckpointId checkpoint = rig.pause_after_round();
  Snapshot backup = rig.snapshot();
  backup.counters.backup_at = rig.now;
  for (CheckpointRecord& stored : backup.checkpoints) {
    for (CheckpointPart& part : stored.parts) part.units = {};
  }
  rig.measure(rig.a, 100);
  rig.resume_and_place();
  rig.begin();
  rig.commit();
  const std::vector<UnitRange> cut = rig.cut();
  ASSERT_NE(cut, rig.halves);
  const auto held = held_replicas(
      rig.state(), {rig.last<Assign>(rig.a)->replica, rig.last<Assign>(rig.b)->replica});
  rig.restore(backup);
  rig.come_back(held);
  rig.stay(seconds(12));
  ASSERT_EQ(rig.cut(), cut);
  const CheckpointRecord& stored = rig.state().checkpoints.at(checkpoint);
  EXPECT_EQ(stored.parts[0].units, rig.halves[0]);
  EXPECT_EQ(stored.parts[1].units, rig.halves[1]);
}

// An agent with two devices; the second one is this fast.
void greet(Rig& rig, ConnectionId connection, Incarnation incarnation, double gflops) {
  Hello hello{.uid = "uid-c", .name = "c", .host = "127.0.0.1"};
  hello.incarnation = incarnation;
  hello.protocol = kProtocolVersion;
  for (std::int32_t i = 0; i < 2; ++i) {
    hello.devices.push_back(Device{.index = i,
                                   .kind = DeviceKind::kCpu,
                                   .name = "cpu",
                                   .memory = kMostOfIt,
                                   .gflops = i == 0 ? 10 : gflops});
  }
  rig.input(AgentHello{connection, hello});
}

TEST(Recutting, WhatTheRoundHadLeasedWhenItLostAllReplicas_IsTrainedAgain) {
  Operated<Rig> rig;
  const JobId id{1};
  const ConnectionId agent{901};
  rig.adopt(six_blocks());
  greet(rig, agent, Incarnation{1}, 10);
  for (int i = 0; i < 3; ++i) rig.wait(seconds(1)), rig.say(agent, Heartbeat{});
  const auto messages = rig.sent[agent];
  for (const ToAgent& message : messages) {
    const auto* assign = std::get_if<Assign>(&message);
    if (assign == nullptr) continue;
    rig.say(agent, Loaded{assign->replica,
                          assign->source.key,
                          {7, 7},
                          {8, 8},
                          1000,
                          "127.0.0.1:" + std::to_string(7100 + assign->stage)});
  }
  const RoundKey key = next_key(rig.job(id));
  for (const ReplicaId replica : live_replicas(rig.state(), id)) rig.report(agent, replica, key);
  ASSERT_EQ(rig.state().rounds.at(key).state, RoundState::kReducing);
  const std::vector<UnitRange> before = cut_of(rig.job(id));
  const std::int64_t leased = rig.job(id).next_sequence;
  ASSERT_GT(leased, 0);

  greet(rig, ConnectionId{902}, Incarnation{2}, 100);  // restarted: all replicas are lost at once
  EXPECT_EQ(rig.job(id).reason, JobReason::kLastReplicaLost);
  for (int i = 0; i < 6; ++i) rig.wait(seconds(1)), rig.say(ConnectionId{902}, Heartbeat{});
  ASSERT_NE(cut_of(rig.job(id)), before);
  EXPECT_EQ(rig.job(id).next_sequence, leased);
  EXPECT_THAT(rig.job(id).returned, ElementsAre(DataLease{0, leased}));
}

TEST(Recutting, ItIsPlacedAnewByItselfForABetterCut) {
  Recut rig;
  rig.measure(rig.a, 100);
  for (int i = 0; i < 2; ++i) {
    rig.stay(seconds(50));
    rig.commit(), rig.store(rig.id);
  }
  rig.stay(seconds(50));
  ASSERT_TRUE(rig.job(rig.id).recuts);
  ASSERT_THAT(rig.said(event_kind::kPipelineRecut), SizeIs(1));
  EXPECT_THAT(rig.said(event_kind::kPipelineRecut)[0], HasSubstr("with another cut"));
  rig.commit(), rig.store(rig.id);
  EXPECT_NE(rig.cut(), rig.halves) << "in the same step";
  EXPECT_EQ(rig.job(rig.id).committed_round, 4);
  EXPECT_THAT(rig.said(event_kind::kPipelineRecut), SizeIs(2));
  rig.begin();
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

}  // namespace
}  // namespace shoal::coordinator
