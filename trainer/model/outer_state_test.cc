// Gradients that are averaged at every step are the same training as one worker with the batch of
// all of them, moments included; and what the outer state of each algorithm holds.
#include "trainer/plain/outer_state.h"

#include <cmath>

#include <gtest/gtest.h>

#include "trainer/model/learner.h"
#include "trainer/model/tiny_job.h"

namespace shoal::trainer {
namespace {

constexpr int kReplicas = 4;
constexpr std::int64_t kBatch = 3;

JobSpec spec_of(SyncAlgorithm algorithm, std::int64_t batch) {
  return tiny_job(algorithm, batch, Steps(30));
}

struct Trainee {
  explicit Trainee(const JobSpec& spec) {
    auto data = Dataset::open(spec);
    EXPECT_TRUE(data.ok());
    const auto failure = StageModel::create(spec, whole_model(spec.model), {}, model);
    EXPECT_FALSE(failure.has_value());
    model->seed();
    learner = std::make_unique<Learner>(*model, std::move(*data));
  }
  std::unique_ptr<StageModel> model;
  std::unique_ptr<Learner> learner;
};

CommitRound commit_of(RoundNumber round, double outer_lr) {
  CommitRound commit;
  commit.key = {JobId(1), 0, round};
  commit.outer_lr = outer_lr;
  return commit;
}

// One inner step of all replicas with exact averages.
void ddp_step(const JobSpec& spec, std::vector<Trainee>& replicas, std::int64_t step,
              OuterState& state) {
  std::vector<float> gradient(state.anchor.size()), average(state.anchor.size(), 0.0f);
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    StepResult result;
    const auto first = (step * kReplicas + static_cast<std::int64_t>(i)) * kBatch;
    ASSERT_FALSE(replicas[i].learner->train_step(Steps(step), first, result));
    replicas[i].model->read_gradient(gradient);
    for (std::size_t k = 0; k < gradient.size(); ++k) average[k] += gradient[k];
  }
  for (float& value : average) value /= kReplicas;
  const auto ranges = decay_ranges(parameter_layout(spec.model, whole_model(spec.model)));
  take_outer_step(spec, commit_of(step + 1, 1), ranges, {}, average, state);
  for (Trainee& replica : replicas) {
    replica.model->write_parameters(state.anchor);
    replica.model->clear_gradient();
  }
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max<double>(largest, std::fabs(a[i] - b[i]));
  return largest;
}

TEST(OuterState, AveragedGradientsAreOneWorkerWithTheBatchOfAll) {
  const JobSpec spec = spec_of(SyncAlgorithm::kDdp, kBatch);
  std::vector<Trainee> replicas;
  for (int i = 0; i < kReplicas; ++i) replicas.emplace_back(spec);
  Trainee lone(spec_of(SyncAlgorithm::kNone, kBatch * kReplicas));
  OuterState state =
      zero_outer_state(default_spec(SyncAlgorithm::kDdp).sync, lone.model->value_count());
  lone.model->read_parameters(state.anchor);
  const std::vector<float> initial = state.anchor;
  for (std::int64_t step = 0; step < 20; ++step) {
    ddp_step(spec, replicas, step, state);
    StepResult result;
    ASSERT_FALSE(lone.learner->train_step(Steps(step), step * kReplicas * kBatch, result));
  }
  std::vector<float> parameters(state.anchor.size()), m(parameters), v(parameters);
  lone.model->read_parameters(parameters);
  lone.model->read_adam(m, v);
  EXPECT_GT(largest_difference(parameters, initial), 1e-2);
  EXPECT_LT(largest_difference(parameters, state.anchor), 2e-5);
  EXPECT_LT(largest_difference(m, state.adam_m), 1e-6);
  EXPECT_LT(largest_difference(v, state.adam_v), 1e-7);
  EXPECT_EQ(lone.model->adam_step(), OuterState::adam_step({JobId(1), 0, 20}));
}

TEST(OuterState, AStepThatOnlyKeepsItsGradientChangesNoParameter) {
  Trainee one(spec_of(SyncAlgorithm::kDdp, kBatch));
  std::vector<float> before(static_cast<std::size_t>(one.model->value_count())), after(before);
  one.model->read_parameters(before);
  StepResult result;
  ASSERT_FALSE(one.learner->train_step(Steps(0), 0, result));
  std::vector<float> first(before), both(before), second(before);
  one.model->read_gradient(first);
  ASSERT_FALSE(one.learner->train_step(Steps(1), kBatch, result));
  one.model->read_gradient(both);
  one.model->clear_gradient();
  ASSERT_FALSE(one.learner->train_step(Steps(1), kBatch, result));
  one.model->read_gradient(second);
  one.model->read_parameters(after);
  EXPECT_EQ(before, after);
  for (std::size_t i = 0; i < both.size(); ++i) {  // an aborted round's gradient is kept
    ASSERT_NEAR(both[i], (first[i] + second[i]) / 2, 1e-6);
  }
}

TEST(OuterState, EachAlgorithmSharesWhatItsOuterStepKeeps) {
  const OuterState diloco = zero_outer_state(default_spec(SyncAlgorithm::kDiloco).sync, 3);
  EXPECT_FALSE(diloco.shares_adam());
  EXPECT_EQ(momentum_digest(diloco), digest_of(std::span<const float>(diloco.momentum)));
  OuterState ddp = zero_outer_state(default_spec(SyncAlgorithm::kDdp).sync, 3);
  EXPECT_TRUE(ddp.shares_adam());
  EXPECT_TRUE(ddp.momentum.empty());
  const Digest zero = momentum_digest(ddp);
  ddp.adam_v[2] = 1;
  EXPECT_NE(momentum_digest(ddp), zero);
}

TEST(OuterState, ShardedItFollowsTheStepOfTheOwners) {
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  spec.sync.outer_state = shoal::OuterState::kSharded;
  spec.sync.outer = {0.5, 0.5};
  OuterState state = zero_outer_state(spec.sync, 3);
  EXPECT_TRUE(state.momentum.empty());
  EXPECT_EQ(momentum_digest(state), Digest());
  state.anchor = {100, 100, 100};
  state.shards = outer_opt::MomentumShards({{1, 2}});
  state.shards.at({1, 2})[0] = 2;
  take_outer_step(spec, commit_of(1, 0.5), {}, {{0, 3}}, std::vector<float>{1, 3.25, -6}, state);
  EXPECT_EQ(state.anchor, (std::vector<float>{99, 96.75, 106}));
  EXPECT_EQ(state.shards.at({1, 2})[0], 5);
  EXPECT_EQ(state.shards.at({1, 2})[1], -8);
}

TEST(OuterState, LocalSgdAdoptsTheAverageOfTheParameters) {
  const JobSpec spec = default_spec(SyncAlgorithm::kLocalSgd);
  OuterState state = zero_outer_state(spec.sync, 2);
  state.anchor = {8, 4};
  const std::vector<float> average{2, -1};  // of anchor minus local
  for (int round = 1; round <= 2; ++round) {
    take_outer_step(spec, commit_of(round, spec.sync.outer.lr), {},
                    {{0, static_cast<std::int64_t>(average.size())}}, average, state);
  }
  EXPECT_EQ(state.anchor, (std::vector<float>{4, 6}));
}

// Two members of a group that only average have the mean of their parameters.
TEST(OuterState, AGroupAveragesParametersWithLocalSgd) {
  JobSpec spec = default_spec(SyncAlgorithm::kLocalSgd);
  spec.sync.topology = Topology::kGossip;
  ReducePlan plan;
  plan.outer_lr = 1;
  plan.members = {{ReplicaId(1), "a:1", 1, 1, 0, 2}, {ReplicaId(2), "b:1", 1, 0.5, 2, 0}};
  ReducePlan told = plan, told_other = plan;
  OuterState one = zero_outer_state(spec.sync, 2), other = one;
  one.anchor = {4, 8};
  other.anchor = {2, 4};
  std::vector<float> mine{1, 2}, theirs{4, 8};  // the other's is clipped to a half
  group_input(spec, ReplicaId(1), one, mine, told);
  group_input(spec, ReplicaId(2), other, theirs, told_other);
  EXPECT_EQ(mine, (std::vector<float>{3, 6}));
  EXPECT_EQ(theirs, (std::vector<float>{0, 0}));
  EXPECT_EQ(told, told_other) << "clip factors are spent";
  EXPECT_EQ(told.members[1].clip_factor, 1);
  const std::vector<float> mean{1.5, 3};
  CommitRound commit;
  commit.outer_lr = 1;
  take_outer_step(spec, commit, {}, {{0, 2}}, mean, one);
  take_outer_step(spec, commit, {}, {{0, 2}}, mean, other);
  EXPECT_EQ(one.anchor, mean);
  EXPECT_EQ(other.anchor, mean);
}

}  // namespace
}  // namespace shoal::trainer
