// Agents that an operator takes out of service and puts back, and when their replicas go.
#include "coordinator/core/replicas/drain.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

// Three agents of a job that needs two; the third joined while it was loading.
struct Three : Rig {
  Three() {
    for (const char* name : {"a", "b", "c"}) agents.push_back(join(name));
    id = *submit(small_job());
    for (const ConnectionId agent : agents) replicas.push_back(load(agent));
    wait(seconds(3));
    key = {id, 0, 1};
  }
  void commit_round() {
    for (std::size_t i = 0; i < 3; ++i) report(agents[i], replicas[i], key);
    for (std::size_t i = 0; i < 3; ++i) vote(agents[i], replicas[i], key, 1);
  }
  void command(AgentVerb verb, std::uint64_t agent) {
    input(CommandAgent{RequestId{9}, AgentId(agent), verb});
  }
  const AgentRecord& agent(std::uint64_t n) const { return state().agents.at(AgentId(n)); }

  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  JobId id;
  RoundKey key;
};

TEST(Drain, OfAnAgentWithoutWorkIsDoneAtOnce) {
  Rig rig;
  rig.join("a");
  const auto told = [&] {
    return std::count_if(rig.events.begin(), rig.events.end(), [](const EventRecord& event) {
      return event.kind == std::string(event_kind::kAgentDrained);
    });
  };
  rig.input(CommandAgent{RequestId{9}, AgentId(1), AgentVerb::kDrain});
  EXPECT_EQ(told(), 1);
  rig.input(CommandAgent{RequestId{9}, AgentId(1), AgentVerb::kDrain});
  EXPECT_EQ(told(), 1) << "it was done before";
}

// The service refuses it from then on; people are told, also of one that is gone.
TEST(Drain, ARevocationIsAnEvent) {
  Three rig;
  const auto told = [&] {
    return std::count_if(rig.events.begin(), rig.events.end(), [](const EventRecord& event) {
      return event.kind == std::string(event_kind::kAgentRevoked);
    });
  };
  rig.command(AgentVerb::kRevoked, 3);
  EXPECT_EQ(told(), 1);
  EXPECT_TRUE(rig.replies.back().result.ok());
  rig.command(AgentVerb::kRevoked, 9);
  EXPECT_EQ(told(), 1);
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kNotFound);
}

TEST(Drain, LetsAReplicaGoWhenItsRoundCommits) {
  Three rig;
  rig.command(AgentVerb::kDrain, 3);
  EXPECT_TRUE(rig.replies.back().result.ok());
  EXPECT_EQ(rig.agent(3).state, AgentState::kDraining);
  EXPECT_FALSE(rig.last<Release>(rig.agents[2])) << "in the middle of a round";
  rig.commit_round();
  EXPECT_EQ(rig.rounds_.at(rig.key).tokens, Tokens(3 * 1280)) << "what it trained counts";
  ASSERT_TRUE(rig.last<Release>(rig.agents[2]));
  EXPECT_EQ(rig.last<Release>(rig.agents[2])->reason, ReleaseReason::kDraining);
  EXPECT_EQ(rig.state().replicas.size(), 2u);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_TRUE(std::any_of(rig.events.begin(), rig.events.end(), [](const EventRecord& event) {
    return event.kind == std::string(event_kind::kAgentDrained);
  }));
  EXPECT_EQ(rig.state().contributions.at({rig.key, rig.replicas[2]}).state,
            ContributionState::kCommitted);
  const RoundKey next{rig.id, 0, 2};
  EXPECT_TRUE(rig.state().contributions.contains({next, rig.replicas[1]}));
  EXPECT_FALSE(rig.state().contributions.contains({next, rig.replicas[2]}))
      << "it is no part of the round after its last";
  rig.restart();
  EXPECT_TRUE(rig.agent(3).cordoned);
  EXPECT_EQ(rig.state().replicas.size(), 2u) << "it gets no new one";
}

TEST(Drain, NeverGoesBelowTheMinimum) {
  Three rig;
  rig.command(AgentVerb::kDrain, 2);
  rig.command(AgentVerb::kDrain, 3);
  rig.commit_round();
  EXPECT_TRUE(rig.last<Release>(rig.agents[1]));
  EXPECT_FALSE(rig.last<Release>(rig.agents[2]));
  EXPECT_EQ(rig.state().replicas.size(), 2u);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(Drain, ACordonedAgentKeepsItsWorkAndGetsNoMore) {
  Rig rig;
  const auto a = rig.join("a");
  rig.input(CommandAgent{RequestId{1}, AgentId(1), AgentVerb::kCordon});
  JobSpec spec = small_job();
  spec.swarm.min_replicas = 1;
  ASSERT_TRUE(rig.submit(spec).ok());
  EXPECT_FALSE(rig.last<Assign>(a));
  rig.input(CommandAgent{RequestId{2}, AgentId(1), AgentVerb::kUncordon});
  EXPECT_TRUE(rig.last<Assign>(a));
  rig.input(CommandAgent{RequestId{3}, AgentId(1), AgentVerb::kCordon});
  EXPECT_EQ(rig.state().replicas.size(), 1u);
}

TEST(Drain, AnotherAgentTakesThePlace) {
  Rig rig;
  const auto a = rig.join("a"), b = rig.join("b"), c = rig.join("c");
  JobSpec spec = small_job();
  spec.swarm.max_replicas = 2;
  ASSERT_TRUE(rig.submit(spec).ok());
  rig.load(a);
  rig.load(b);
  rig.wait(seconds(3));
  EXPECT_FALSE(rig.last<Assign>(c));
  rig.input(CommandAgent{RequestId{1}, AgentId(1), AgentVerb::kDrain});
  EXPECT_TRUE(rig.last<Assign>(c));
}

TEST(Drain, CanBeTakenBackBeforeTheCommit) {
  Three rig;
  rig.command(AgentVerb::kDrain, 3);
  rig.command(AgentVerb::kDrain, 3);
  rig.command(AgentVerb::kUncordon, 3);
  EXPECT_EQ(rig.agent(3).state, AgentState::kActive);
  EXPECT_FALSE(rig.agent(3).cordoned);
  rig.commit_round();
  EXPECT_EQ(rig.state().replicas.size(), 3u);
}

TEST(Drain, RefusesAgentsThatAreNotThere) {
  Rig rig;
  const auto a = rig.join("a");
  rig.say(a, Goodbye{"it left"});
  rig.input(CommandAgent{RequestId{1}, AgentId(1), AgentVerb::kDrain});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kConflict);
  rig.input(CommandAgent{RequestId{2}, AgentId(7), AgentVerb::kDrain});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace shoal::coordinator
