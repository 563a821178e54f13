// Which replica evaluates which slice of the held-out batches, and the mean over all of them.
#include "coordinator/core/replicas/evaluation.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "coordinator/core/transaction_test_util.h"

namespace shoal::coordinator {
namespace {

constexpr Instant kNow{1'700'000'000'000'000'000};
constexpr JobId kJob{1};
const RoundKey kRound{kJob, 0, 1};

// Three replicas on agents of their own; the first two hold the committed round.
struct EvaluationTest : testing::Test {
  EvaluationTest() {
    JobRecord job{.id = kJob, .phase = JobPhase::kTraining};
    job.spec.eval.batches = 2;
    job.committed_round = 1;
    job.stages = {{.units = {0, 3}, .value_count = 10, .anchor = {}, .momentum = {}}};
    state.jobs.put(kJob, job);
    state.rounds.put(kRound, {.key = kRound, .state = RoundState::kCommitted, .reduces = {{}}});
    for (std::uint64_t id = 1; id <= 3; ++id) {
      const AgentId agent(id);
      state.agents.put(agent, {.id = agent, .name = "a"});
      state.presence.put(agent, {.connection = {id}, .connected = true});
      ReplicaRecord replica{.id = ReplicaId(id), .job = kJob, .agent = agent};
      replica.state = ReplicaState::kServing;
      replica.held_round = id < 3 ? 1 : 0;
      state.replicas.put(replica.id, replica);
      state.contributions.put({kRound, replica.id},
                              {.key = kRound, .replica = replica.id, .agent = agent});
    }
  }
  const ContributionRecord& part(std::uint64_t id) const {
    return state.contributions.at({kRound, ReplicaId(id)});
  }
  void share(const std::vector<ReplicaId>& followers) {
    Transaction tx(state, kNow);
    share_evaluation(tx, kRound, followers);
  }
  void evaluated(std::int64_t slice, double loss_sum, std::int64_t tokens) {
    Transaction tx(state, kNow);
    on_evaluated(tx, ReplicaId(1), {kRound, {slice, 2, 2}, loss_sum, Tokens(tokens)});
  }
  // The slice that this act tells the agent of a replica to evaluate.
  template <typename Act>
  std::optional<std::int64_t> told(std::uint64_t id, const Act& act) {
    Transaction tx(state, kNow);
    act(tx);
    const auto said = messages<ToReplica<Evaluate>>(effects_of(tx), ConnectionId{id});
    return said.empty() ? std::nullopt : std::optional(said.back().body.slice.slice);
  }

  State state;
};

TEST_F(EvaluationTest, NoMoreSlicesThanBatchesAndNoneForOtherStages) {
  share({ReplicaId(1), ReplicaId(2), ReplicaId(3)});
  EXPECT_EQ(state.rounds.at(kRound).eval_slices, 2);
  EXPECT_EQ(part(1).eval_slice, 0);
  EXPECT_EQ(part(2).eval_slice, 1);
  EXPECT_EQ(part(3).eval_slice, -1);
}

TEST_F(EvaluationTest, OnlyRoutersEvaluate) {
  state.replicas.at(ReplicaId(1)).stage = 1;
  share({ReplicaId(1), ReplicaId(2)});
  EXPECT_EQ(state.rounds.at(kRound).eval_slices, 1);
  EXPECT_EQ(part(1).eval_slice, -1);
  EXPECT_EQ(part(2).eval_slice, 0);
}

TEST_F(EvaluationTest, WithoutBatchesThereIsNothingToShare) {
  state.jobs.at(kJob).spec.eval.batches = 0;
  share({ReplicaId(1)});
  EXPECT_EQ(state.rounds.at(kRound).eval_slices, 0);
}

// 30 nats over 10 tokens and 10 over 10: 2 per token.
TEST_F(EvaluationTest, TheLossIsTheMeanOverAllTokens) {
  share({ReplicaId(1), ReplicaId(2)});
  evaluated(0, 30, 10);
  EXPECT_FALSE(evaluation_complete(state.rounds.at(kRound), state));
  EXPECT_EQ(state.jobs.at(kJob).validation_round, -1);
  evaluated(0, 30, 10);  // said again
  EXPECT_EQ(state.rounds.at(kRound).validation_tokens, Tokens(10));
  evaluated(1, 10, 10);
  EXPECT_TRUE(evaluation_complete(state.rounds.at(kRound), state));
  EXPECT_EQ(state.jobs.at(kJob).validation_loss, 2);
  EXPECT_EQ(state.jobs.at(kJob).validation_round, 1);
}

TEST_F(EvaluationTest, SlicesOfAnotherSharingCountForNothing) {
  share({ReplicaId(1)});
  evaluated(0, 30, 10);  // says that it is one of two
  EXPECT_EQ(state.rounds.at(kRound).validation_tokens, Tokens(0));
}

TEST_F(EvaluationTest, AnOpenSliceIsSaidAgainToItsOwner) {
  share({ReplicaId(1), ReplicaId(2)});
  const auto again = [](Transaction& tx) { resend_slices(tx, kRound, ReplicaId(2)); };
  EXPECT_EQ(told(2, again), 1);
  state.contributions.at({kRound, ReplicaId(2)}).evaluated = true;
  EXPECT_FALSE(told(2, again));
}

TEST_F(EvaluationTest, TheSliceOfWhoIsGoneFallsToTheFirstThatHoldsTheRound) {
  share({ReplicaId(2), ReplicaId(1)});
  state.replicas.erase(ReplicaId(2));
  EXPECT_EQ(told(1, [](Transaction& tx) { pass_on_slices(tx, kRound); }), 0);
  EXPECT_EQ(told(1, [](Transaction& tx) { take_over_slices(tx, ReplicaId(1)); }), 0);
  EXPECT_FALSE(told(3, [](Transaction& tx) { take_over_slices(tx, ReplicaId(3)); }));
}

}  // namespace
}  // namespace shoal::coordinator
