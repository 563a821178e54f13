// ddp with a real model: gradients that are averaged at every step are the same training as one
// worker with the batch of all of them, moments included.
#include <cmath>

#include <gtest/gtest.h>

#include "replica/core/outer_algorithm.h"
#include "trainer/model/learner.h"
#include "trainer/model/tiny_job_test_util.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

constexpr int kReplicas = 4;
constexpr std::int64_t kBatch = 3;

JobSpec spec_of(SyncAlgorithm algorithm, std::int64_t batch) {
  return tiny_job(algorithm, batch, Steps(30));
}

struct Trainee {
  explicit Trainee(const JobSpec& spec) {
    auto data = Dataset::open(spec, data::DataRoots::whole_host());
    EXPECT_TRUE(data.ok());
    const auto failure = StageModel::create(spec, whole_model(spec.model), {}, model);
    EXPECT_FALSE(failure.has_value());
    model->seed();
    learner = std::make_unique<Learner>(*model, std::move(*data));
  }
  std::unique_ptr<StageModel> model;
  std::unique_ptr<Learner> learner;
};

// One inner step of all replicas with exact averages.
void ddp_step(replica::OuterAlgorithm& algorithm, std::vector<Trainee>& replicas, std::int64_t step,
              replica::OuterState& state) {
  std::vector<float> gradient(state.anchor.size()), average(state.anchor.size(), 0.0f);
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    StepResult result;
    const auto first = (step * kReplicas + static_cast<std::int64_t>(i)) * kBatch;
    ASSERT_FALSE(replicas[i].learner->train_step(Steps(step), first, result));
    replicas[i].model->read_gradient(gradient);
    for (std::size_t k = 0; k < gradient.size(); ++k) average[k] += gradient[k];
  }
  for (float& value : average) value /= kReplicas;
  CommitRound commit;
  commit.key = {JobId(1), 0, step + 1};
  algorithm.step(replica::step_terms(commit, 0, algorithm.norm_of(average)),
                 {0, std::ssize(average)}, average, state);
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

TEST(SharedAdam, AveragedGradientsAreOneWorkerWithTheBatchOfAll) {
  const JobSpec spec = spec_of(SyncAlgorithm::kDdp, kBatch);
  std::vector<Trainee> replicas;
  for (int i = 0; i < kReplicas; ++i) replicas.emplace_back(spec);
  Trainee lone(spec_of(SyncAlgorithm::kNone, kBatch * kReplicas));
  const auto algorithm = replica::make_outer_algorithm(
      spec, decay_ranges(parameter_layout(spec.model, whole_model(spec.model))));
  replica::OuterState state = algorithm->zero_state(lone.model->value_count());
  lone.model->read_parameters(state.anchor);
  const std::vector<float> initial = state.anchor;
  for (std::int64_t step = 0; step < 20; ++step) {
    ddp_step(*algorithm, replicas, step, state);
    StepResult result;
    ASSERT_FALSE(lone.learner->train_step(Steps(step), step * kReplicas * kBatch, result));
  }
  std::vector<float> parameters(state.anchor.size()), m(parameters), v(parameters);
  lone.model->read_parameters(parameters);
  lone.model->read_adam(m, v);
  EXPECT_GT(largest_difference(parameters, initial), 1e-2);
  EXPECT_LT(largest_difference(parameters, state.anchor), 2e-5);
  EXPECT_LT(largest_difference(m, vector_of(state.vectors, replica::kSharedMoments[0])), 1e-6);
  EXPECT_LT(largest_difference(v, vector_of(state.vectors, replica::kSharedMoments[1])), 1e-7);
  EXPECT_EQ(lone.model->adam_step(), 20);
}

TEST(SharedAdam, AStepThatOnlyKeepsItsGradientChangesNoParameter) {
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

}  // namespace
}  // namespace shoal::trainer
