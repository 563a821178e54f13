// Views of a pipeline: whom they list, when there is a new one, and who hears it again.
#include "coordinator/core/rounds/pipeline_view.h"

#include <optional>
#include <vector>

#include <gmock/gmock.h>

#include "coordinator/core/transaction_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;

constexpr Instant kNow{1'700'000'000'000'000'000};
constexpr JobId kJob{1};
const RoundKey kRound{kJob, 0, 1};

// Two stages: rep_1 and rep_3 serve stage 1, rep_2 stage 0, each on the agent of its number.
struct PipelineViewTest : testing::Test {
  PipelineViewTest() {
    JobRecord job{.id = kJob, .phase = JobPhase::kTraining};
    job.stages.resize(2);
    state.jobs.put(kJob, job);
    state.timers.put(kJob, {});
    state.rounds.put(kRound, {.key = kRound});
    for (std::uint64_t id = 1; id <= 3; ++id) assign_data(id, id == 2 ? 0 : 1);
  }
  void assign_data(std::uint64_t id, StageIndex stage) {
    const AgentId agent(id);
    state.agents.put(agent, {.id = agent});
    state.presence.put(agent, {.connection = {id}, .connected = true});
    ReplicaRecord replica{.id = ReplicaId(id), .job = kJob, .agent = agent, .stage = stage};
    replica.state = ReplicaState::kServing;
    replica.held_round = 0;
    state.replicas.put(replica.id, replica);
    state.contributions.put({kRound, replica.id},
                            {.key = kRound, .replica = replica.id, .agent = agent});
  }
  // The views that this act sends to the agent of that number.
  template <typename Act>
  std::vector<PipelineView> told(std::uint64_t id, const Act& act) {
    Transaction tx(state, kNow);
    act(tx);
    std::vector<PipelineView> views;
    for (const auto& said : messages<ToReplica<PipelineView>>(effects_of(tx), ConnectionId{id}))
      views.push_back(said.body);
    return views;
  }
  static void refresh(Transaction& tx) { refresh_view(tx, kJob); }
  static std::vector<std::uint64_t> ids(const PipelineView& view) {
    std::vector<std::uint64_t> all;
    for (const PipelineMember& member : view.members) all.push_back(member.replica.n);
    return all;
  }

  State state;
};

TEST_F(PipelineViewTest, MembersComeByStageThenById) {
  const auto views = told(3, refresh);
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].number, 1);
  EXPECT_THAT(ids(views[0]), ElementsAre(2, 1, 3));
}

TEST_F(PipelineViewTest, ThereIsANewOneWhenTheMembersChangeOnly) {
  told(1, refresh);
  EXPECT_TRUE(told(1, refresh).empty());
  assign_data(4, 0);
  const auto views = told(4, refresh);
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].number, 2);
  EXPECT_THAT(ids(views[0]), ElementsAre(2, 4, 1, 3));
}

TEST_F(PipelineViewTest, AJoinerIsInNoViewBeforeItHasData) {
  assign_data(4, 0);
  state.contributions.erase({kRound, ReplicaId(4)});
  EXPECT_TRUE(told(4, refresh).empty());
  EXPECT_TRUE(
      told(4, [&](Transaction& tx) { resend_view(tx, state.replicas.at(ReplicaId(4))); }).empty());
}

TEST_F(PipelineViewTest, WhatIsSentAgainHasTheNumberOfItsList) {
  told(1, refresh);
  const auto views =
      told(2, [&](Transaction& tx) { resend_view(tx, state.replicas.at(ReplicaId(2))); });
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].number, 1);
}

TEST_F(PipelineViewTest, AJobOfOneStageOrOneThatWaitsHasNone) {
  state.jobs.at(kJob).phase = JobPhase::kWarming;
  EXPECT_TRUE(told(1, refresh).empty());
  state.jobs.at(kJob).phase = JobPhase::kTraining;
  state.jobs.at(kJob).stages.resize(1);
  EXPECT_TRUE(told(1, refresh).empty());
  EXPECT_EQ(state.jobs.at(kJob).view, 0);
}

// Between the last commit and the end: those that hold the committed state, for the evaluation.
TEST_F(PipelineViewTest, WithoutAnOpenRoundItListsTheInSyncReplicas) {
  state.rounds.erase(kRound);
  state.replicas.at(ReplicaId(3)).held_round = -1;
  const auto views = told(1, refresh);
  ASSERT_EQ(views.size(), 1u);
  EXPECT_THAT(ids(views[0]), ElementsAre(2, 1));
}

}  // namespace
}  // namespace shoal::coordinator
