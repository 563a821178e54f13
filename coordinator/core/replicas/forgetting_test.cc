// Agents that an operator has forgotten: what goes with them, and when that is refused.
#include "coordinator/core/replicas/forgetting.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

Result<JobId> forget(Rig& rig, AgentId agent) {
  rig.input(CommandAgent{RequestId{9}, agent, AgentVerb::kForget});
  return rig.replies.back().result;
}

std::string why(const Result<JobId>& refused) {
  return refused.ok() ? "it was not refused" : to_string(refused.error());
}

struct Trained : PairRig {
  Trained() : PairRig(spec()) {
    report(a, rep_a, key(1)), report(b, rep_b, key(1));
    finish(1);
    agent_a = state().replicas.at(rep_a).agent, agent_b = state().replicas.at(rep_b).agent;
  }
  static JobSpec spec() {
    JobSpec spec = small_job();
    spec.train.steps = Steps(100);
    spec.checkpoint.every_rounds = 0;
    spec.swarm.min_replicas = 1;
    return spec;
  }
  // b speaks on, and a is silent until it is gone.
  void lose_a() {
    for (int i = 0; i < 6; ++i) wait(seconds(2)), say(b, Heartbeat{});
  }
  AgentId agent_a, agent_b;
};

TEST(Forgetting, OfAnAgentThatLeftLeavesNothingOfIt) {
  Rig rig;
  const auto a = rig.join("a");
  rig.say(a, Goodbye{"stopped"});
  ASSERT_TRUE(forget(rig, AgentId(1)).ok());
  EXPECT_EQ(rig.events.back().kind, event_kind::kAgentForgotten);
  EXPECT_EQ(rig.events.back().agent, AgentId(1));
  EXPECT_TRUE(rig.state().agents.empty());
  rig.restart();
  EXPECT_TRUE(rig.state().agents.empty()) << "the tables have forgotten it, too";
  EXPECT_EQ(forget(rig, AgentId(1)).error().code, Code::kNotFound);
}

TEST(Forgetting, AHostThatComesBackIsANewAgent) {
  Rig rig;
  const auto first = rig.join("a");
  const Incarnation before = rig.last<Welcome>(first)->incarnation;
  rig.say(first, Goodbye{"stopped"});
  ASSERT_TRUE(forget(rig, AgentId(1)).ok());
  const auto again = rig.join("a");
  ASSERT_TRUE(rig.last<Welcome>(again));
  EXPECT_EQ(rig.last<Welcome>(again)->agent, AgentId(2)) << "ids are not used twice";
  EXPECT_GT(rig.last<Welcome>(again)->incarnation, before);
  EXPECT_EQ(rig.events.back().kind, event_kind::kAgentJoined);
}

TEST(Forgetting, IsRefusedWhileTheAgentIsConnectedOrMayReturn) {
  Rig rig;
  rig.join("a");
  const auto refused = forget(rig, AgentId(1));
  EXPECT_THAT(why(refused), HasSubstr("agent a is connected"));
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_TRUE(rig.state().agents.contains(AgentId(1)));
  rig.restart();  // nobody has been heard since
  EXPECT_THAT(why(forget(rig, AgentId(1))), HasSubstr("agent a may still return"));
}

TEST(Forgetting, ReleasesWhatOthersHoldAsWell) {
  Trained rig;
  rig.lose_a();
  ASSERT_EQ(rig.state().agents.at(rig.agent_a).state, AgentState::kGone);
  ASSERT_EQ(rig.state().replicas.at(rig.rep_a).state, ReplicaState::kAbsent);
  ASSERT_TRUE(forget(rig, rig.agent_a).ok());
  EXPECT_FALSE(rig.state().replicas.contains(rig.rep_a));
  EXPECT_EQ(rig.replicas_.at(rig.rep_a).state, ReplicaState::kReleased);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  rig.report(rig.b, rig.rep_b, rig.key(2));
  rig.vote(rig.b, rig.rep_b, rig.key(2), 1);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
}

TEST(Forgetting, IsRefusedWhileItMayHoldWhatNobodyElseDoes) {
  Trained rig;
  rig.wait(seconds(40));  // both are silent
  ASSERT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  EXPECT_THAT(why(forget(rig, rig.agent_a)),
              HasSubstr("may hold the newest state of stage 0 of job job"));
  EXPECT_TRUE(rig.state().replicas.contains(rig.rep_a));
  rig.input(CancelJob{RequestId{2}, rig.id});
  EXPECT_TRUE(forget(rig, rig.agent_a).ok()) << "nobody needs it any more";
}

TEST(Forgetting, TakesItsLinesAlong) {
  Trained rig;
  Snapshot tables = rig.snapshot();
  tables.links = {{rig.agent_a, rig.agent_b, milliseconds(20), 25e6, PeerWay::kDirect, rig.now},
                  {rig.agent_b, rig.agent_a, milliseconds(20), 25e6, PeerWay::kDirect, rig.now},
                  {rig.agent_b, AgentId(7), milliseconds(20), 25e6, PeerWay::kDirect, rig.now}};
  rig.restore(tables);
  rig.b = rig.join("b", rig.state().agents.at(rig.agent_b).incarnation, {rig.rep_b});
  for (int i = 0; i < 60; ++i) rig.wait(seconds(2)), rig.say(rig.b, Heartbeat{});
  ASSERT_EQ(rig.state().agents.at(rig.agent_a).state, AgentState::kGone);
  const auto forgotten = forget(rig, rig.agent_a);
  ASSERT_TRUE(forgotten.ok()) << why(forgotten);
  ASSERT_EQ(rig.state().links.size(), 1u);
  EXPECT_EQ(rig.state().links.begin()->first.second, AgentId(7));
}

}  // namespace
}  // namespace shoal::coordinator
