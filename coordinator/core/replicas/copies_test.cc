// Copies of stages: who keeps them, what they are told, and what they save.
#include "coordinator/core/replicas/copies.h"

#include <algorithm>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {
namespace {

JobSpec copied_job(std::int64_t buddies, std::int64_t checkpoint_every = 0) {
  JobSpec spec = small_job();
  spec.model.layers = 2;
  spec.swarm.stages = 2;
  spec.swarm.min_replicas = 1;
  spec.swarm.max_replicas = 2;
  spec.train.steps = Steps(200);
  spec.checkpoint.every_rounds = checkpoint_every;
  spec.checkpoint.buddies = buddies;
  return spec;
}

// Enough for one stage of the two and not for both, which keep more beside them than the whole.
Bytes memory_for_one_stage(const JobSpec& spec) {
  const swarm::CostModel model(spec, swarm::cost_options(spec));
  return model.memory(model.whole());
}

// Two stages on agents of one device each, in training.
struct CopiedRig : Rig {
  explicit CopiedRig(std::int64_t buddies = 1, int count = 2, std::int64_t checkpoint_every = 0,
                     Bytes lends = mebibytes(1), bool roomy = false) {
    const JobSpec spec = copied_job(buddies, checkpoint_every);
    options.copies_max = lends;
    if (!roomy) device_memory = memory_for_one_stage(spec);
    adopt(spec);
    for (int i = 0; i < count; ++i) agents.push_back(join("agent-" + std::to_string(i)));
    wait(seconds(3));
    for (const auto agent : agents) load(agent);
    wait(seconds(3));
  }

  const JobRecord& the_job() const { return job(JobId(1)); }
  ReplicaId replica(ConnectionId agent) { return last<Assign>(agent)->replica; }
  StageIndex stage(ConnectionId agent) { return last<Assign>(agent)->stage; }
  ConnectionId of_stage(StageIndex wanted) {
    for (const auto agent : agents) {
      if (stage(agent) == wanted) return agent;
    }
    return {};
  }
  void commit(RoundNumber number) {
    const RoundKey key{JobId(1), the_job().epoch, number};
    const auto all = [&](const auto& act) {
      for (const auto agent : agents) act(agent, replica(agent));
    };
    all([&](auto agent, auto id) { report(agent, id, key); });
    all([&](auto agent, auto id) { vote(agent, id, key, 1); });
    all([&](auto agent, auto id) { applied(agent, id, key, {11, 11}); });
    ASSERT_EQ(the_job().committed_round, number);
  }
  std::vector<StageCopy> told(ConnectionId keeper) {
    const auto orders = last<ToReplica<KeepCopies>>(keeper);
    return orders ? orders->body.copies : std::vector<StageCopy>();
  }
  // All that it was told to keep is there.
  void hold(ConnectionId keeper) {
    CopiesHeld held;
    for (const StageCopy& copy : told(keeper)) {
      held.copies.push_back({copy.copy, copy.key, copy.anchor, copy.momentum});
    }
    say(keeper, FromReplica<CopiesHeld>{replica(keeper), held});
  }
  void commit_and_copy(RoundNumber number) {
    commit(number);
    for (const auto agent : agents) hold(agent);
  }
  void lose(ConnectionId agent) {
    say(agent, Goodbye{"stopped"});
    std::erase(agents, agent);
  }
  ConnectionId come(const std::string& name) {
    agents.push_back(join(name));
    return agents.back();
  }
  void stay_alive(Duration d) {
    for (Duration passed; passed < d; passed = passed + seconds(2)) {
      for (const auto agent : agents) say(agent, Heartbeat{});
      wait(seconds(2));
    }
  }
  std::int64_t count(const char* kind) const {
    return std::ranges::count_if(events, [&](const EventRecord& e) { return e.kind == kind; });
  }

  std::vector<ConnectionId> agents;
};

TEST(Copies, AreKeptByTheOtherStageOnceSomethingIsCommitted) {
  CopiedRig rig;
  const ConnectionId first = rig.of_stage(0), last = rig.of_stage(1);
  EXPECT_TRUE(rig.told(first).empty()) << "the seed needs no copy";
  rig.commit(1);
  ASSERT_EQ(rig.told(first).size(), 1u);
  const StageCopy copy = rig.told(first)[0];
  EXPECT_EQ(copy.stage, 1);
  EXPECT_EQ(copy.value_count, 1000);
  EXPECT_EQ(copy.key, (RoundKey{JobId(1), 0, 1}));
  EXPECT_EQ(copy.anchor, (Digest{11, 11}));
  ASSERT_EQ(copy.sources.size(), 1u);
  EXPECT_EQ(copy.sources[0].replica, rig.replica(last));
  EXPECT_FALSE(rig.state().replicas.contains(copy.copy)) << "an id of its own";
  EXPECT_EQ(rig.told(last)[0].stage, 0);
  rig.commit(2);
  EXPECT_EQ(rig.told(first)[0].copy, copy.copy);
  EXPECT_EQ(rig.told(first)[0].key.round, 2);
}

TEST(Copies, AreNotKeptWhereTheJobDoesNotAskForThem) {
  CopiedRig rig(0);
  rig.commit(1);
  EXPECT_TRUE(rig.told(rig.of_stage(0)).empty());
}

TEST(Copies, AreNotKeptBeyondWhatAnAgentLends) {
  const Bytes copy(16 * 1000);  // anchor and outer momentum, twice
  CopiedRig enough(1, 2, 0, copy), short_of(1, 2, 0, copy - Bytes(1));
  enough.commit(1), short_of.commit(1);
  EXPECT_EQ(enough.told(enough.of_stage(0)).size(), 1u);
  EXPECT_TRUE(short_of.told(short_of.of_stage(0)).empty());
}

TEST(Copies, AStageThatIsLostBeginsAnewFromOne) {
  CopiedRig rig;
  rig.commit_and_copy(1);
  rig.commit_and_copy(2);
  const ConnectionId keeper = rig.of_stage(0);
  const StageCopy copy = rig.told(keeper)[0];
  rig.lose(rig.of_stage(1));
  EXPECT_EQ(rig.the_job().phase, JobPhase::kStalled);
  EXPECT_NE(rig.the_job().detail.find("copy of round 2"), std::string::npos);
  const ConnectionId fresh = rig.come("fresh");
  rig.wait(seconds(2));
  const auto assign = rig.last<Assign>(fresh);
  ASSERT_TRUE(assign.has_value());
  EXPECT_EQ(assign->stage, 1);
  EXPECT_EQ(assign->source.kind, SourceKind::kPeer);
  EXPECT_EQ(assign->source.key, (RoundKey{JobId(1), 0, 2}));
  const std::string address = rig.state().replicas.at(rig.replica(keeper)).address;
  EXPECT_EQ(assign->sources, (std::vector<PeerAddress>{{copy.copy, address}}));
  EXPECT_EQ(rig.told(keeper)[0].copy, copy.copy) << "it is still to be kept";
  rig.say(fresh, Loaded{assign->replica, assign->source.key, {11, 11}, {9, 9}, 1000, "fresh:1"});
  rig.stay_alive(seconds(4));
  EXPECT_EQ(rig.the_job().phase, JobPhase::kTraining);
  EXPECT_EQ(rig.the_job().committed_round, 2);
  EXPECT_EQ(rig.the_job().epoch, 0) << "nothing was given up";
  EXPECT_EQ(rig.count(event_kind::kStageRestoredFromCopy), 1);
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
}

TEST(Copies, AKeeperWithRoomForItServesTheLostStageToo) {
  CopiedRig rig(1, 2, 0, mebibytes(1), true);
  rig.commit_and_copy(1);
  const ConnectionId keeper = rig.of_stage(0);
  const StageCopy copy = rig.told(keeper)[0];
  rig.lose(rig.of_stage(1));
  rig.stay_alive(seconds(4));
  const Assign assign = *rig.last<Assign>(keeper);
  ASSERT_EQ(assign.stage, 1);
  EXPECT_EQ(assign.source.replica, copy.copy);
  rig.say(keeper, Loaded{assign.replica, assign.source.key, {11, 11}, {9, 9}, 1000, "again:1"});
  rig.stay_alive(seconds(4));
  EXPECT_EQ(rig.the_job().phase, JobPhase::kTraining);
  EXPECT_EQ(rig.count(event_kind::kStageRestoredFromCopy), 1);
}

TEST(Copies, TheRoundThatNoneHoldsYetIsLostWithItsStage) {
  CopiedRig rig;
  rig.commit_and_copy(1);
  rig.commit(2);  // its copy is on the way
  rig.say(rig.of_stage(0), FromReplica<CopiesHeld>{rig.replica(rig.of_stage(0)), {}});
  rig.lose(rig.of_stage(1));
  rig.come("fresh");
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0) << "its word may be on the way, too";
  rig.stay_alive(rig.options.rollback_wait_min + seconds(4));
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 1);
  EXPECT_EQ(rig.the_job().committed_round, 0);
}

TEST(Copies, AFreshCoordinatorWaitsForKeepersItHasNotHeard) {
  CopiedRig rig;
  rig.commit_and_copy(1);
  const ConnectionId keeper = rig.of_stage(0);
  const ReplicaId host = rig.replica(keeper);
  const StageCopy copy = rig.told(keeper)[0];
  const AgentId agent = rig.state().replicas.at(host).agent;
  const std::string name = rig.state().agents.at(agent).name;
  rig.lose(rig.of_stage(1));
  rig.restart();
  rig.agents.clear();
  rig.come("fresh");
  rig.stay_alive(seconds(6));
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 0);
  const auto back = rig.join(name, rig.state().agents.at(agent).incarnation, {host});
  rig.agents.push_back(back);
  ASSERT_EQ(rig.told(back).size(), 1u);
  EXPECT_EQ(rig.told(back)[0].copy, copy.copy);
  EXPECT_TRUE(rig.told(back)[0].sources.empty()) << "what it holds is all there is";
  rig.say(back, FromReplica<CopiesHeld>{host, {{{copy.copy, copy.key, {11, 11}, {9, 9}}}}});
  rig.stay_alive(seconds(4));
  const auto assign = rig.last<Assign>(rig.agents[0]);
  ASSERT_TRUE(assign.has_value());
  EXPECT_EQ(assign->source.replica, copy.copy);
}

TEST(Copies, ACheckpointOfTheSameRoundComesFirst) {
  CopiedRig rig(1, 2, 1);
  rig.commit_and_copy(1);
  const CheckpointId checkpoint = rig.state().checkpoints.begin()->first;
  rig.upload(checkpoint, 0);
  rig.upload(checkpoint, 1);
  rig.lose(rig.of_stage(1));
  const ConnectionId fresh = rig.come("fresh");
  rig.wait(seconds(2));
  ASSERT_TRUE(rig.last<Assign>(fresh).has_value());
  EXPECT_EQ(rig.last<Assign>(fresh)->source.kind, SourceKind::kCheckpoint);
}

TEST(Copies, OneThatCannotBeLoadedIsGivenUpAfterAFewTries) {
  CopiedRig rig;
  rig.commit_and_copy(1);
  rig.lose(rig.of_stage(1));
  const ConnectionId fresh = rig.come("fresh");
  for (int i = 0; i < 3; ++i) {
    rig.stay_alive(seconds(4));
    ASSERT_EQ(rig.last<Assign>(fresh)->source.kind, SourceKind::kPeer);
    rig.say(fresh, ReplicaFailed{rig.replica(fresh), ReplicaFailure::kSourceLost, "out of reach"});
  }
  rig.stay_alive(seconds(4));
  EXPECT_EQ(rig.count(event_kind::kJobRolledBack), 1);
}

TEST(Copies, AKeeperDoesNotMoveToTheStageThatNeedsItsCopy) {
  CopiedRig rig(1, 3);
  rig.commit_and_copy(1);
  // Three agents: one stage has two replicas, of which one keeps the copy of the other stage.
  ConnectionId alone{}, keeper{};
  for (const auto agent : rig.agents) {
    const auto same = std::ranges::count_if(
        rig.agents, [&](auto other) { return rig.stage(other) == rig.stage(agent); });
    if (same == 1) alone = agent;
  }
  const StageIndex lost = rig.stage(alone);
  for (const auto agent : rig.agents) {
    const auto copies = rig.told(agent);
    if (std::ranges::count(copies, lost, &StageCopy::stage) > 0) keeper = agent;
  }
  ASSERT_NE(keeper, ConnectionId());
  const ReplicaId keeps = rig.replica(keeper);
  rig.lose(alone);
  rig.stay_alive(seconds(10));
  EXPECT_TRUE(rig.state().replicas.contains(keeps));
  const auto restores =
      std::ranges::find_if(rig.agents, [&](auto agent) { return rig.stage(agent) == lost; });
  ASSERT_NE(restores, rig.agents.end()) << "the other one moves";
  EXPECT_EQ(rig.last<Assign>(*restores)->source.key.round, 1);
}

TEST(Copies, APausingJobStoresWhatOnlyACopyHas) {
  CopiedRig rig;
  rig.commit_and_copy(1);
  rig.lose(rig.of_stage(1));
  rig.input(PauseJob{RequestId{9}, JobId(1)});
  rig.stay_alive(rig.options.rollback_wait_min + seconds(10));
  EXPECT_EQ(rig.the_job().phase, JobPhase::kStalled) << "it waits for a device";
  EXPECT_EQ(rig.the_job().committed_round, 1);
  const ConnectionId fresh = rig.come("fresh");
  rig.wait(seconds(2));
  const auto assign = rig.last<Assign>(fresh);
  ASSERT_TRUE(assign.has_value());
  rig.say(fresh, Loaded{assign->replica, assign->source.key, {11, 11}, {9, 9}, 1000, "fresh:1"});
  rig.stay_alive(seconds(6));
  EXPECT_EQ(rig.the_job().phase, JobPhase::kFinalizing);
  EXPECT_EQ(rig.the_job().committed_round, 1);
}

TEST(Copies, AnotherKeeperIsChosenBeforeTheOldOneLetsGo) {
  CopiedRig rig(1, 4);
  rig.commit_and_copy(1);
  const auto keeper_of_stage_1 = [&]() -> ConnectionId {
    for (const auto agent : rig.agents) {
      if (std::ranges::count(rig.told(agent), 1, &StageCopy::stage) > 0) return agent;
    }
    return {};
  };
  const ConnectionId before = keeper_of_stage_1();
  ASSERT_EQ(rig.stage(before), 0);
  const AgentId agent = rig.state().replicas.at(rig.replica(before)).agent;
  rig.input(CommandAgent{RequestId{9}, agent, AgentVerb::kCordon});
  EXPECT_EQ(rig.told(before).size(), 1u) << "the other one has nothing yet";
  for (const auto other : rig.agents) rig.hold(other);
  EXPECT_TRUE(rig.told(before).empty());
  EXPECT_NE(keeper_of_stage_1(), ConnectionId());
  EXPECT_NE(keeper_of_stage_1(), before);
}

}  // namespace
}  // namespace shoal::coordinator
