// Each algorithm's contribution and outer step on numbers that a person can follow.
#include "replica/core/outer_algorithm.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"
#include "replica/core/replica_test_util.h"

namespace shoal::replica {
namespace {

using outer_opt::Fragment;

const Fragment kBoth{{0, 2}};

JobSpec spec_of(SyncAlgorithm algorithm, OuterSpec outer = {0.5, 0.5}) {
  JobSpec spec = default_spec(algorithm);
  if (algorithm == SyncAlgorithm::kDiloco || algorithm == SyncAlgorithm::kAsync) {
    change_sync(spec, [&](SyncSpec& sync) { sync.outer = outer; });
  }
  return spec;
}

const std::vector<float>& momentum_of(const OuterState& state) {
  return vector_of(state.vectors, "momentum");
}

std::vector<float> contribution_of(const OuterAlgorithm& algorithm, const LocalParameters& local,
                                   const OuterState& state, const Fragment& fragment) {
  std::vector<float> out(static_cast<std::size_t>(outer_opt::value_count(fragment)));
  algorithm.contribution(local, state, fragment, out);
  return out;
}

TEST(OuterAlgorithm, APseudoGradientIsAnchorMinusLocal) {
  const auto algorithm = make_outer_algorithm(spec_of(SyncAlgorithm::kDiloco), {});
  OuterState state = algorithm->zero_state(4);
  EXPECT_EQ(momentum_of(state).size(), 4u);
  state.anchor = {10, 20, 30, 40};
  const VectorParameters local({9, 22, 33, 36});
  EXPECT_EQ(contribution_of(*algorithm, local, state, {{0, 4}}),
            (std::vector<float>{1, -2, -3, 4}));
  EXPECT_EQ(contribution_of(*algorithm, local, state, {{0, 1}, {2, 2}}),
            (std::vector<float>{1, -3, 4}));
}

// m = 0.5 m + d; anchor -= lr (d + 0.5 m): twice, by hand.
TEST(OuterAlgorithm, DilocoTakesNesterovSteps) {
  const auto algorithm = make_outer_algorithm(spec_of(SyncAlgorithm::kDiloco), {});
  OuterState state = algorithm->zero_state(2);
  state.anchor = {8, 4};
  take_step(*algorithm, commit_of(1, 0.5), kBoth, std::vector<float>{2, -4}, state);
  EXPECT_EQ(momentum_of(state), (std::vector<float>{2, -4}));
  EXPECT_EQ(state.anchor, (std::vector<float>{6.5, 7}));
  take_step(*algorithm, commit_of(2, 0.5), kBoth, std::vector<float>{1, 0}, state);
  EXPECT_EQ(momentum_of(state), (std::vector<float>{2, -2}));
  EXPECT_EQ(state.anchor, (std::vector<float>{5.5, 7.5}));
}

// The optimizer of the spec is the one that steps, and it is what a device is asked to do.
TEST(OuterAlgorithm, DilocoTakesTheStepsOfItsOptimizer) {
  for (const OuterTraits& traits : kOuterTraits) {
    OuterSpec outer{0.5, 0.5};
    outer.method = traits.method;
    const auto algorithm = make_outer_algorithm(spec_of(SyncAlgorithm::kDiloco, outer), {});
    ASSERT_NE(algorithm->optimizer(), nullptr);
    EXPECT_EQ(algorithm->optimizer()->spec(), outer);
    OuterState state = algorithm->zero_state(2);
    EXPECT_TRUE(std::ranges::equal(state.vectors, traits.vectors, {}, &NamedVector::name));
    OuterState other = state;
    const std::vector<float> average{2, -4};
    take_step(*algorithm, commit_of(1, 0.5), kBoth, average, state);
    algorithm->optimizer()->step(step_terms(commit_of(1, 0.5), 0, 0), average,
                                 outer_opt::RunsOf(other.vectors, {0, 2}), other.anchor);
    EXPECT_EQ(state.anchor, other.anchor);
    EXPECT_EQ(state.vectors, other.vectors);
  }
}

TEST(OuterAlgorithm, OnlyAnAverageThatAnOptimizerTakesWholeHasOne) {
  for (const SyncAlgorithm algorithm :
       {SyncAlgorithm::kNone, SyncAlgorithm::kDdp, SyncAlgorithm::kAsync}) {
    EXPECT_EQ(make_outer_algorithm(spec_of(algorithm), {})->optimizer(), nullptr);
  }
  EXPECT_NE(make_outer_algorithm(spec_of(SyncAlgorithm::kLocalSgd), {})->optimizer(), nullptr);
}

TEST(OuterAlgorithm, AStepOfAFragmentLeavesTheOthersAlone) {
  const auto algorithm = make_outer_algorithm(spec_of(SyncAlgorithm::kDiloco), {});
  OuterState state = algorithm->zero_state(3);
  state.anchor = {8, 4, 2};
  take_step(*algorithm, commit_of(1, 1), {{1, 1}}, std::vector<float>{2}, state);
  EXPECT_EQ(momentum_of(state), (std::vector<float>{0, 2, 0}));
  EXPECT_EQ(state.anchor, (std::vector<float>{8, 1, 2}));
}

TEST(OuterAlgorithm, LocalSgdAdoptsTheAverageOfTheParameters) {
  const JobSpec spec = spec_of(SyncAlgorithm::kLocalSgd);
  const auto algorithm = make_outer_algorithm(spec, {});
  OuterState state = algorithm->zero_state(2);
  state.anchor = {8, 4};
  for (int round = 1; round <= 2; ++round) {
    take_step(*algorithm, commit_of(round, spec.sync.outer.lr), kBoth, std::vector<float>{2, -1},
              state);
  }
  EXPECT_EQ(state.anchor, (std::vector<float>{4, 6}));
}

// Half of the replicas, and half a renewal: u = 0.5 d, anchor -= lr (u + push u), u *= decay.
TEST(OuterAlgorithm, AsyncTakesTheTermsOfTheCommit) {
  const auto algorithm = make_outer_algorithm(spec_of(SyncAlgorithm::kAsync), {});
  OuterState state = algorithm->zero_state(1);
  state.anchor = {10};
  CommitRound commit = commit_of(1, 0.5);
  commit.share = 0.5, commit.decay = 0.75, commit.push = 0.25;
  take_step(*algorithm, commit, {{0, 1}}, std::vector<float>{8}, state);
  EXPECT_EQ(state.anchor[0], 10 - 0.5f * (4 + 0.25f * 4));
  EXPECT_EQ(momentum_of(state)[0], 3);
}

TEST(OuterAlgorithm, AloneTheLocalParametersBecomeTheAnchor) {
  const auto algorithm = make_outer_algorithm(spec_of(SyncAlgorithm::kNone), {});
  OuterState state = algorithm->zero_state(2);
  state.anchor = {8, 4};
  const VectorParameters local({1, 2});
  ReducePlan plan = plan_of(1, 2);
  plan.members.resize(1);
  ASSERT_TRUE(algorithm->averages_alone(plan));
  take_step(*algorithm, commit_of(1, 0.9), kBoth, local.values, state);
  EXPECT_EQ(state.anchor, local.values);
  EXPECT_EQ(momentum_of(state), (std::vector<float>{0, 0}));
}

// One joins and one leaves: for a round there are two, and both must come to the same anchor.
TEST(OuterAlgorithm, AReplicaThatTakesOverAveragesWithTheOneThatLeaves) {
  const auto algorithm = make_outer_algorithm(spec_of(SyncAlgorithm::kNone), {});
  OuterState state = algorithm->zero_state(2);
  state.anchor = {8, 4};
  ASSERT_FALSE(algorithm->averages_alone(plan_of(1, 2)));
  take_step(*algorithm, commit_of(1, 0.9), kBoth, std::vector<float>{3, -1}, state);
  EXPECT_EQ(state.anchor, (std::vector<float>{5, 5}));
}

// The first AdamW step moves every value by lr towards minus the sign of its gradient; where it
// decays the parameter shrinks by lr * weight_decay first.
TEST(OuterAlgorithm, DdpAveragesGradientsAndTakesAnAdamWStep) {
  JobSpec spec = spec_of(SyncAlgorithm::kDdp);
  spec.train.lr = 0.5, spec.train.weight_decay = 0.25, spec.train.clip = 0;
  spec.train.warmup = Steps(0), spec.train.schedule = Schedule::kConstant;
  const auto algorithm = make_outer_algorithm(spec, {{0, 1, true}, {1, 1, false}});
  OuterState state = algorithm->zero_state(2);
  EXPECT_TRUE(state.shares_adam());
  state.anchor = {8, 8};
  VectorParameters local({8, 8});
  local.gradient = {2, -2};
  EXPECT_EQ(contribution_of(*algorithm, local, state, kBoth), local.gradient);
  take_step(*algorithm, commit_of(1, 1), kBoth, local.gradient, state);
  EXPECT_NEAR(state.anchor[0], 8 - 0.5 * 0.25 * 8 - 0.5, 1e-6);
  EXPECT_NEAR(state.anchor[1], 8 + 0.5, 1e-6);
  algorithm->forget_trained(local);
  EXPECT_EQ(local.gradient, (std::vector<float>{0, 0}));
}

TEST(OuterAlgorithm, DigestsCoverWhatTheOuterStepKeeps) {
  const auto diloco = make_outer_algorithm(spec_of(SyncAlgorithm::kDiloco), {})->zero_state(3);
  EXPECT_EQ(digests_of(diloco).momentum, digest_of(std::span(momentum_of(diloco))));
  OuterState ddp = make_outer_algorithm(spec_of(SyncAlgorithm::kDdp), {})->zero_state(3);
  const Digest zero = digests_of(ddp).momentum;
  vector_of(ddp.vectors, kSharedMoments[1])[2] = 1;
  EXPECT_NE(digests_of(ddp).momentum, zero);
}

JobSpec sharded_spec() {
  JobSpec spec = spec_of(SyncAlgorithm::kDiloco);
  change_sync(spec, [](SyncSpec& sync) { sync.outer_state = shoal::OuterState::kSharded; });
  return spec;
}

TEST(OuterAlgorithm, ShardedItFollowsTheStepOfTheOwners) {
  const auto algorithm = make_outer_algorithm(sharded_spec(), {});
  OuterState state = algorithm->zero_state(3);
  EXPECT_TRUE(state.vectors.empty());
  EXPECT_EQ(digests_of(state).momentum, Digest());
  state.anchor = {100, 100, 100};
  state.shards = outer_opt::MomentumShards({{1, 2}});
  state.shards.at({1, 2})[0] = 2;
  take_step(*algorithm, commit_of(1, 0.5), {{0, 2}, {2, 1}}, std::vector<float>{1, 3.25, -6},
            state);
  EXPECT_EQ(state.anchor, (std::vector<float>{99, 96.75, 106}));
  EXPECT_EQ(state.shards.at({1, 2})[0], 5);
  EXPECT_EQ(state.shards.at({1, 2})[1], -8);
}

TEST(OuterAlgorithm, StagedMomentumIsTheStatesWithTheCommitOnly) {
  const auto algorithm = make_outer_algorithm(sharded_spec(), {});
  OuterState state = algorithm->zero_state(4);
  ReducePlan plan = plan_of(1, 4);
  plan.owner_step = OwnerStep{{0.5, 0.5}, {}};
  auto missing = algorithm->missing_momentum(plan, ReplicaId(1), state);
  ASSERT_TRUE(missing.ok());
  ASSERT_TRUE(missing->has_value()) << "the parts are new, and nobody holds momentum";
  EXPECT_TRUE((*missing)->missing.empty());
  (*missing)->shards.at({0, 2})[1] = 6;
  algorithm->stage(std::move((*missing)->shards));
  EXPECT_TRUE(state.shards.ranges().empty());
  ASSERT_EQ(algorithm->own_momentum(plan, ReplicaId(1), state).size(), 2u);
  EXPECT_EQ(algorithm->own_momentum(plan, ReplicaId(1), state)[1], 6);
  algorithm->forget_staged();
  take_step(*algorithm, commit_of(1, 0.5), {{0, 4}}, std::vector<float>(4, 0.0f), state);
  EXPECT_TRUE(state.shards.ranges().empty()) << "the attempt came to nothing";
}

TEST(OuterAlgorithm, ShardedACheckpointIsKeptWhole) {
  const auto algorithm = make_outer_algorithm(sharded_spec(), {});
  OuterState state = algorithm->zero_state(3);
  algorithm->adopt_vectors({{"momentum", {1, 2, 3}}}, state);
  EXPECT_TRUE(state.shards.holds({0, 3}));
  EXPECT_EQ(state.shards.at({0, 3})[2], 3);
}

TEST(OuterAlgorithm, PlansOfAnotherKindAreRefused) {
  ReducePlan plan = plan_of(1, 2);
  const auto diloco = make_outer_algorithm(spec_of(SyncAlgorithm::kDiloco), {});
  const auto sharded = make_outer_algorithm(sharded_spec(), {});
  EXPECT_EQ(diloco->mismatch(plan), "");
  EXPECT_NE(sharded->mismatch(plan), "");
  plan.owner_step.emplace();
  EXPECT_NE(diloco->mismatch(plan), "");
  EXPECT_EQ(sharded->mismatch(plan), "");
}

// Two members of a group that only average have the mean of their parameters.
TEST(OuterAlgorithm, AGroupAveragesParametersWithLocalSgd) {
  JobSpec spec = spec_of(SyncAlgorithm::kLocalSgd);
  spec.sync.topology = Topology::kMoshpit;
  const auto algorithm = make_outer_algorithm(spec, {});
  ReducePlan told = plan_of(1, 2);
  told.members[1].clip_factor = 0.5;  // applied by who receives
  OuterState one = algorithm->zero_state(2), other = one;
  one.anchor = {4, 8};
  other.anchor = {2, 4};
  std::vector<float> mine{1, 2}, theirs{2, 4};
  ASSERT_TRUE(algorithm->enter_group(one, mine, told));
  ASSERT_TRUE(algorithm->enter_group(other, theirs, told));
  EXPECT_EQ(mine, (std::vector<float>{3, 6}));
  EXPECT_EQ(theirs, (std::vector<float>{0, 0}));
  EXPECT_TRUE(std::ranges::equal(algorithm->clip_center(other), other.anchor));
  const std::vector<float> mean{1.5, 3};
  take_step(*algorithm, commit_of(1, 1), kBoth, mean, one);
  take_step(*algorithm, commit_of(1, 1), kBoth, mean, other);
  EXPECT_EQ(one.anchor, mean);
  EXPECT_EQ(other.anchor, mean);
}

}  // namespace
}  // namespace shoal::replica
