// Reducers in the coordinator: who gets one, what it averages, what its loss costs, and when it is
// told again. Whole rounds with them are in tests/scenarios.
#include "coordinator/core/replicas/reducers.h"

#include "coordinator/core/coordinator_test_util.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

JobSpec served_job() {
  JobSpec spec = small_job();
  spec.train.steps = Steps(100);
  change_sync(spec, [](SyncSpec& sync) { sync.topology = Topology::kParamServer; });
  return spec;
}

// Two agents that train and a third one that averages.
struct Served : Rig {
  explicit Served(const JobSpec& spec = served_job()) {
    a = join("a"), b = join("b"), r = come();
    id = *submit(spec);
    rep_a = load(a), rep_b = load(b);
    if (last<Assign>(r)) rep_r = load_reducer();
    wait(seconds(3));
  }
  ConnectionId come(Incarnation incarnation = {}, std::vector<ReplicaId> running = {}) {
    Hello hello{.uid = "uid-r", .name = "r", .incarnation = incarnation};
    hello.devices = {Device{.index = 0, .kind = DeviceKind::kReducer, .name = "reducer"}};
    hello.replicas = held_replicas(state(), running);
    const ConnectionId connection{next_++};
    input(AgentHello{connection, hello});
    return connection;
  }
  ReplicaId load_reducer() {
    const Assign assign = *last<Assign>(r);
    say(r, Loaded{assign.replica, assign.source.key, {}, {}, 0, "127.0.0.1:99", {}});
    return assign.replica;
  }
  void report_both() { report(a, rep_a, key()), report(b, rep_b, key()); }
  void stay(int duration_s) {
    for (int passed = 0; passed < duration_s; ++passed) {
      wait(seconds(1));
      for (const auto connection : {a, b, r}) say(connection, Heartbeat{});
    }
  }
  RoundKey key() const { return {id, 0, 1}; }
  ConnectionId a, b, r;
  ReplicaId rep_a, rep_b, rep_r;
  JobId id;
  std::uint64_t next_ = 70;
};

TEST(Reducers, OwnAPartWithoutAWeight) {
  Served rig;
  EXPECT_EQ(live_replicas(rig.state(), rig.id), (std::vector{rig.rep_a, rig.rep_b}));
  EXPECT_EQ(live_reducers(rig.state(), rig.id), std::vector{rig.rep_r});
  EXPECT_EQ(rig.state().agents.at(AgentId(3)).state, AgentState::kActive);
  rig.report_both();
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.r);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->replica, rig.rep_r);
  ASSERT_EQ(plan->body.members.size(), 3u);
  const ReduceMember& reducer = plan->body.members[2];
  EXPECT_EQ(reducer.replica, rig.rep_r);
  EXPECT_TRUE(reducer.reducer);
  EXPECT_EQ(reducer.weight, 0);
  EXPECT_EQ(reducer.part_count, 500) << "what it carries while the two exchange a vector";
  const ContributionRecord& record = rig.state().contributions.at({rig.key(), rig.rep_r});
  EXPECT_EQ(record.agent, AgentId(3));
}

TEST(Reducers, AreForJobsThatAskForThem) {
  JobSpec spec = served_job();
  change_sync(spec, [](SyncSpec& sync) { sync.topology = Topology::kButterfly; });
  Served rig(spec);
  EXPECT_FALSE(rig.last<Assign>(rig.r));
}

TEST(Reducers, ACordonedAgentGetsNone) {
  Served served;
  served.say(served.r, ReplicaFailed{served.rep_r, ReplicaFailure::kTrainerExited, ""});
  served.input(CommandAgent{RequestId{1}, AgentId(3), AgentVerb::kCordon});
  served.sent.clear();
  served.stay(60);
  EXPECT_FALSE(served.last<Assign>(served.r));
  served.input(CommandAgent{RequestId{1}, AgentId(3), AgentVerb::kUncordon});
  served.stay(5);
  EXPECT_TRUE(served.last<Assign>(served.r));
}

// The job continues as it is, and another one takes its place when the device has rested.
TEST(Reducers, TheLossOfOneIsNoFailureOfTheJob) {
  Served rig;
  const Instant balanced = rig.job(rig.id).balance_at;
  rig.say(rig.r, ReplicaFailed{rig.rep_r, ReplicaFailure::kTrainerExited, ""});
  EXPECT_EQ(rig.job(rig.id).failures_in_row, 0);
  EXPECT_EQ(rig.job(rig.id).balance_at, balanced);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.last<Assign>(rig.r)->replica, rig.rep_r) << "its device rests";
  rig.stay(60);
  EXPECT_NE(rig.last<Assign>(rig.r)->replica, rig.rep_r);
}

TEST(Reducers, OneThatComesBackInAReduceIsToldUntilItHasVoted) {
  Served rig;
  rig.report_both();
  rig.input(AgentHungUp{rig.r});
  rig.r = rig.come(Incarnation{1}, {rig.rep_r});
  EXPECT_TRUE(rig.last<ToReplica<ReducePlan>>(rig.r));
  rig.vote(rig.r, rig.rep_r, rig.key(), 1, {});
  rig.input(AgentHungUp{rig.r});
  rig.r = rig.come(Incarnation{1}, {rig.rep_r});
  EXPECT_FALSE(rig.last<ToReplica<ReducePlan>>(rig.r));
  rig.vote(rig.a, rig.rep_a, rig.key(), 1), rig.vote(rig.b, rig.rep_b, rig.key(), 1);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
}

// ---- several stages

JobSpec served_pipeline(std::int64_t stages) {
  JobSpec spec = served_job();
  spec.model.layers = stages;
  spec.swarm.stages = stages;
  spec.swarm.min_replicas = 1;
  return spec;
}

// An agent that averages for a pipeline, and agents that train it.
struct ServedPipeline : Rig {
  ServedPipeline(std::int64_t stages, int trainers) {
    adopt(served_pipeline(stages));
    for (int i = 0; i < trainers; ++i) training.push_back(join("a" + std::to_string(i)));
    wait(seconds(3));
    Hello hello{.uid = "uid-r", .name = "r"};
    hello.devices = {Device{.index = 0, .kind = DeviceKind::kReducer, .name = "reducer"}};
    r = ConnectionId{70};
    input(AgentHello{r, hello});
  }
  void load_all(ConnectionId agent) {
    for (const Assign& each : all<Assign>(agent)) {
      say(agent, Loaded{each.replica, each.source.key, {7, 7}, {8, 8}, 1000, "127.0.0.1:1", {}});
    }
  }
  void stay(int duration_s) {
    for (int passed = 0; passed < duration_s; ++passed) {
      wait(seconds(1));
      for (const auto agent : training) say(agent, Heartbeat{});
      say(r, Heartbeat{});
    }
  }
  template <typename Message>
  std::vector<Message> all(ConnectionId agent) {
    std::vector<Message> found;
    for (const auto& message : sent[agent]) {
      if (const auto* body = std::get_if<Message>(&message)) found.push_back(*body);
    }
    return found;
  }
  std::vector<ConnectionId> training;
  ConnectionId r;
};

TEST(Reducers, EachStageHasOneOfItsOwn) {
  ServedPipeline rig(2, 4);
  for (const ConnectionId agent : rig.training) rig.load_all(agent);
  const std::vector<Assign> assigned = rig.all<Assign>(rig.r);
  ASSERT_EQ(assigned.size(), 2u);
  EXPECT_EQ(assigned[0].stage, 0);
  EXPECT_EQ(assigned[1].stage, 1);
  rig.load_all(rig.r);
  rig.wait(seconds(3));
  for (const ConnectionId agent : rig.training) {
    rig.report(agent, rig.last<Assign>(agent)->replica, {JobId(1), 0, 1});
  }
  const auto plans = rig.all<ToReplica<ReducePlan>>(rig.r);
  ASSERT_EQ(plans.size(), 2u);
  for (const auto& plan : plans) {
    const StageIndex stage = plan.replica == assigned[0].replica ? 0 : 1;
    ASSERT_EQ(plan.body.members.size(), 3u);
    EXPECT_EQ(plan.body.members[2].replica, assigned[stage].replica);
    for (const ReduceMember& member : plan.body.members) {
      EXPECT_EQ(rig.state().replicas.at(member.replica).stage, stage);
    }
  }
}

TEST(Reducers, OnlyTheLostOneIsReplaced) {
  for (const StageIndex lost : {0, 1}) {
    ServedPipeline rig(2, 2);
    const std::vector<Assign> first = rig.all<Assign>(rig.r);
    ASSERT_EQ(first.size(), 2u);
    rig.load_all(rig.r);
    rig.say(rig.r, ReplicaFailed{first[lost].replica, ReplicaFailure::kTrainerExited, ""});
    rig.stay(60);
    const std::vector<Assign> then = rig.all<Assign>(rig.r);
    ASSERT_EQ(then.size(), 3u);
    EXPECT_EQ(then[2].stage, lost);
  }
}

// One agent computes on its first device and averages on two others; the one before it has nothing
// to give.
TEST(Reducers, EveryReducingDeviceOfWhoMayGetsOnes) {
  ServedPipeline rig(2, 2);
  rig.input(CommandAgent{RequestId{1}, AgentId(3), AgentVerb::kCordon});
  Hello hello{.uid = "uid-s", .name = "s"};
  hello.devices = {Device{.index = 0, .kind = DeviceKind::kCpu, .name = "cpu", .memory = Bytes(1)},
                   Device{.index = 1, .kind = DeviceKind::kReducer, .name = "reducer"},
                   Device{.index = 2, .kind = DeviceKind::kReducer, .name = "reducer"}};
  const ConnectionId s{71};
  rig.input(AgentHello{s, hello});
  const std::vector<Assign> assigned = rig.all<Assign>(s);
  ASSERT_EQ(assigned.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(assigned[i].device, i < 2 ? 1 : 2);
    EXPECT_EQ(assigned[i].stage, static_cast<StageIndex>(i % 2));
  }
}

TEST(Reducers, AStalledJobGetsOnesAndOneThatHasEndedDoesNot) {
  for (const bool ended : {false, true}) {
    ServedPipeline rig(2, 2);
    for (const ConnectionId agent : rig.training) rig.load_all(agent);
    rig.wait(seconds(3));
    rig.input(AgentHungUp{rig.r});
    rig.say(rig.training[0], Goodbye{"stopped"});
    if (ended) rig.input(CancelJob{RequestId{1}, JobId(1)});
    EXPECT_EQ(rig.job(JobId(1)).phase, ended ? JobPhase::kCancelled : JobPhase::kStalled);
    Hello hello{.uid = "uid-s", .name = "s"};
    hello.devices = {Device{.index = 0, .kind = DeviceKind::kReducer, .name = "reducer"}};
    rig.input(AgentHello{ConnectionId{71}, hello});
    EXPECT_EQ(rig.all<Assign>(ConnectionId{71}).size(), ended ? 0u : 2u);
    EXPECT_EQ(rig.all<Assign>(rig.r).size(), 2u) << "nothing for who is away";
  }
}

TEST(Reducers, ADeviceTakesNoMoreThanItsAgentStarts) {
  ServedPipeline rig(kReplicasPerReducer + 1, 1);
  EXPECT_EQ(rig.all<Assign>(rig.r).size(), static_cast<std::size_t>(kReplicasPerReducer));
}

TEST(Reducers, AVoteAfterTheCommitIsCounted) {
  Served rig;
  rig.report_both();
  rig.vote(rig.a, rig.rep_a, rig.key(), 1), rig.vote(rig.b, rig.rep_b, rig.key(), 1);
  ASSERT_EQ(rig.job(rig.id).committed_round, 1);
  const Bytes before = rig.job(rig.id).bytes_sent;
  for (int twice = 0; twice < 2; ++twice) rig.vote(rig.r, rig.rep_r, rig.key(), 1, {});
  EXPECT_EQ(rig.job(rig.id).bytes_sent, before + Bytes(100)) << "once";
  const ReduceStats stats = rig.state().contributions.at({rig.key(), rig.rep_r}).stats;
  EXPECT_EQ(stats.received, Bytes(200));
  EXPECT_EQ(stats.reduce_s, 0.5);
}

}  // namespace
}  // namespace shoal::coordinator
