// What becomes of an agent by what happens to its replicas.
#include "coordinator/core/replicas/agents.h"

#include <gtest/gtest.h>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/health_record.h"
#include "coordinator/core/transaction_test_util.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {
namespace {

constexpr Instant kNow{1'700'000'000'000'000'000};
constexpr AgentId kAgent{1};

struct AgentsTest : testing::Test {
  AgentsTest() {
    state.agents.put(kAgent, {.id = kAgent, .name = "a", .state = AgentState::kIdle});
    JobRecord job{.id = JobId(1)};
    job.spec.model = {.layers = 1, .hidden = 32, .heads = 2, .context = 32};
    job.stages = {{.units = {0, 3}, .value_count = 0, .anchor = {}, .momentum = {}}};
    state.jobs.put(job.id, job);
  }
  void hold(std::uint64_t id, ReplicaState in) {
    state.replicas.put(ReplicaId(id),
                       {.id = ReplicaId(id), .job = JobId(1), .agent = kAgent, .state = in});
  }
  AgentState refreshed() {
    Transaction tx(state, kNow);
    refresh_agent(tx, kAgent);
    return agent().state;
  }
  const AgentRecord& agent() const { return state.agents.at(kAgent); }

  State state;
};

TEST_F(AgentsTest, AnAgentIsAsBusyAsItsBusiestReplica) {
  EXPECT_EQ(refreshed(), AgentState::kIdle);
  hold(1, ReplicaState::kLoading);
  EXPECT_EQ(refreshed(), AgentState::kSyncing);
  hold(2, ReplicaState::kServing);
  EXPECT_EQ(refreshed(), AgentState::kActive);
  state.replicas.erase(ReplicaId(2));
  EXPECT_EQ(refreshed(), AgentState::kSyncing);
  state.replicas.clear();
  EXPECT_EQ(refreshed(), AgentState::kIdle);
}

TEST_F(AgentsTest, WhoIsDrainedOrGoneStaysSo) {
  hold(1, ReplicaState::kServing);
  for (const AgentState stays : {AgentState::kDraining, AgentState::kGone, AgentState::kJoining}) {
    state.agents.at(kAgent).state = stays;
    EXPECT_EQ(refreshed(), stays);
  }
}

TEST_F(AgentsTest, TheViolationThatIsOneTooManyIsToldOnce) {
  Transaction tx(state, kNow);
  for (int i = 0; i < 3; ++i) record_violation(tx, kAgent, RejectReason::kOutlier);
  EXPECT_TRUE(is_quarantined(agent()));
  const HealthRecord before = agent().health_record;
  record_violation(tx, kAgent, RejectReason::kOutlier);
  EXPECT_EQ(agent().health_record, before) << "its last rounds count for nothing";
  EXPECT_EQ(count_events(effects_of(tx), event_kind::kAgentQuarantined), 1);
}

TEST_F(AgentsTest, AQuarantineEnds) {
  state.agents.at(kAgent).health_record.quarantined_until = kNow;
  Transaction tx(state, kNow);
  end_quarantine(tx, kAgent, "its time is over");
  EXPECT_FALSE(is_quarantined(agent()));
  EXPECT_EQ(count_events(effects_of(tx), event_kind::kAgentQuarantineEnded), 1);
}

TEST_F(AgentsTest, ForgivenIsWhatWasHeldAgainstIt) {
  state.refusals.put({JobId(1), kAgent}, {});
  state.refusals.put({JobId(1), AgentId(2)}, {});
  state.agents.at(kAgent).health_record.violations = 2;
  state.agents.at(kAgent).refusals = {{0, Bytes(5), kNow}};
  Transaction tx(state, kNow);
  forgive(tx, kAgent);
  EXPECT_EQ(agent().health_record, HealthRecord());
  EXPECT_TRUE(agent().refusals.empty());
  EXPECT_FALSE(state.refusals.contains({JobId(1), kAgent}));
  EXPECT_TRUE(state.refusals.contains({JobId(1), AgentId(2)}));
  EXPECT_EQ(count_events(effects_of(tx), event_kind::kAgentQuarantineEnded), 0) << "it was in none";
}

TEST_F(AgentsTest, WhereNothingWasHeldAgainstItNothingHappens) {
  Transaction tx(state, kNow);
  forgive(tx, kAgent);
  EXPECT_EQ(tx.activity(), 0u);
}

TEST_F(AgentsTest, RefusalsOfAJobAreForgottenWithTheJob) {
  state.refusals.put({JobId(1), kAgent}, {});
  state.refusals.put({JobId(2), kAgent}, {});
  Transaction tx(state, kNow);
  forget_refusals(tx, JobId(1));
  EXPECT_FALSE(state.refusals.contains({JobId(1), kAgent}));
  EXPECT_TRUE(state.refusals.contains({JobId(2), kAgent}));
}

// What failed is this replica with the one beside it: twice the model.
TEST_F(AgentsTest, OutOfMemoryCountsThoseBesideIt) {
  hold(1, ReplicaState::kServing);
  hold(2, ReplicaState::kLoading);
  Transaction tx(state, kNow);
  on_out_of_memory(tx, state.replicas.at(ReplicaId(2)));
  const JobSpec& spec = state.jobs.at(JobId(1)).spec;
  const Bytes one = swarm::CostModel(spec, swarm::cost_options(spec)).memory({0, 3});
  ASSERT_EQ(agent().refusals.size(), 1u);
  EXPECT_EQ(agent().refusals[0].needed, one + one);
  EXPECT_EQ(agent().refusals[0].at, kNow);
}

TEST_F(AgentsTest, OutOfMemoryOfAProgramIsRememberedByItsCode) {
  hold(1, ReplicaState::kServing);
  state.jobs.at(JobId(1)).spec.trainer = {
      .kind = TrainerKind::kPython, .entry = "train.py", .code = "sha256:a"};
  Transaction tx(state, kNow);
  on_out_of_memory(tx, state.replicas.at(ReplicaId(1)));
  EXPECT_EQ(agent().refusals, (std::vector<DeviceRefusal>{{0, Bytes(), kNow, "sha256:a"}}));
}

TEST_F(AgentsTest, AReplicaLeavesADrainedOrQuarantinedAgent) {
  hold(1, ReplicaState::kServing);
  const ReplicaRecord& replica = state.replicas.at(ReplicaId(1));
  EXPECT_FALSE(is_leaving(state, replica));
  state.agents.at(kAgent).state = AgentState::kDraining;
  EXPECT_TRUE(is_leaving(state, replica));
  state.agents.at(kAgent).state = AgentState::kActive;
  state.agents.at(kAgent).health_record.quarantined_until = kNow;
  EXPECT_TRUE(is_leaving(state, replica));
}

TEST_F(AgentsTest, WithinReachIsWhoseAgentHasAnOpenStream) {
  hold(1, ReplicaState::kServing);
  EXPECT_FALSE(is_within_reach(state, ReplicaId(1)));
  state.presence.put(kAgent, {.connection = {7}, .connected = true});
  EXPECT_TRUE(is_within_reach(state, ReplicaId(1)));
  EXPECT_FALSE(is_within_reach(state, ReplicaId(9)));
  state.presence.at(kAgent).connected = false;
  EXPECT_FALSE(is_within_reach(state, ReplicaId(1)));
}

}  // namespace
}  // namespace shoal::coordinator
