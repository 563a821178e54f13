// A few steps lower the loss; microbatches change nothing but rounding; non-finite steps are
// skipped; refusals have names.
#include "trainer/model/learner.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>

#include "trainer/model/slowdown.h"
#include "trainer/model/stage_model_parts.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

class LearnerTest : public testing::Test {
 protected:
  LearnerTest() {
    const auto path = std::filesystem::path(testing::TempDir()) / "shoal_learner_test.txt";
    std::ofstream out(path);
    for (int i = 0; i < 400; ++i) out << "the quick brown fox jumps over the lazy dog. ";
    spec_.name = "test";
    spec_.model = {ModelFamily::kLlama, 2, 32, 2, 1, 0, 16, 256};
    spec_.data.train = path.string();
    spec_.train.batch = 6;
    spec_.train.lr = 1e-2;
    spec_.train.warmup = Steps(2);
    spec_.train.steps = Steps(100);
  }
  struct Pair {
    std::unique_ptr<StageModel> model;
    std::unique_ptr<Learner> learner;
    Learner* operator->() const { return learner.get(); }
  };
  Pair make(const JobSpec& spec) {
    auto data = Dataset::open(spec, data::DataRoots::whole_host());
    EXPECT_TRUE(data.ok());
    const JobSpec full = with_derived_fields(spec);
    Pair pair;
    const auto failure = StageModel::create(full, whole_model(full.model), {}, pair.model);
    EXPECT_FALSE(failure.has_value()) << failure->detail;
    pair.model->seed();
    pair.learner = std::make_unique<Learner>(*pair.model, std::move(*data));
    return pair;
  }
  std::vector<float> parameters(const Pair& pair) {
    std::vector<float> out(static_cast<std::size_t>(pair.model->value_count()));
    pair.model->read_parameters(out);
    return out;
  }

  JobSpec spec_;
};

TEST_F(LearnerTest, LearnsARepeatedSentence) {
  const auto learner = make(spec_);
  StepResult first, result;
  ASSERT_FALSE(learner->train_step(Steps(0), 0, first));
  EXPECT_NEAR(first.loss, std::log(256.0), 0.3);
  for (int i = 1; i < 60; ++i) ASSERT_FALSE(learner->train_step(Steps(i), i * 6, result));
  EXPECT_LT(result.loss, 1.5);
  EvalSum sum;
  for (int i = 0; i < 4; ++i) ASSERT_FALSE(learner->evaluate_batch(i, 4, sum));
  EXPECT_EQ(sum.tokens, Tokens(4 * 6 * 16));
  EXPECT_LT(sum.loss_sum / static_cast<double>(sum.tokens.count()), 1.5);
}

TEST_F(LearnerTest, MicrobatchesAccumulateToTheSameStep) {
  const auto whole = make(spec_);
  spec_.train.microbatch = 4;  // 4 and 2
  const auto parts = make(spec_);
  StepResult a, b;
  ASSERT_FALSE(whole->train_step(Steps(5), 0, a));
  ASSERT_FALSE(parts->train_step(Steps(5), 0, b));
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-4);
}

TEST_F(LearnerTest, SameSeedSameSteps) {
  const auto a = make(spec_), b = make(spec_);
  StepResult result;
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(a->train_step(Steps(i), i * 6, result));
    ASSERT_FALSE(b->train_step(Steps(i), i * 6, result));
  }
  EXPECT_EQ(parameters(a), parameters(b));
}

TEST_F(LearnerTest, AFrozenModelAnswersAsTheTrainedOneAndOwnsNoMemory) {
  const auto trained = make(spec_);
  StepResult result;
  ASSERT_FALSE(trained->train_step(Steps(5), 0, result));
  const auto weights = parameters(trained);
  std::unique_ptr<StageModel> model;
  const JobSpec full = with_derived_fields(spec_);
  ASSERT_FALSE(StageModel::create_frozen(full, {}, weights, model));
  Learner frozen(*model, nullptr);
  const std::vector<std::int64_t> text = {116, 104, 101, 32};
  std::vector<float> expected, logits;
  ASSERT_FALSE(trained->next_logits(text, expected));
  ASSERT_FALSE(frozen.next_logits(text, logits));
  EXPECT_EQ(logits, expected);
  EXPECT_EQ(model->parameters_in_place(), weights.data());
  EXPECT_FALSE(model->parts().model.flat_gradient().defined());
  EXPECT_EQ(model->second_moment_count(), 0);
}

TEST_F(LearnerTest, ParametersAreVisitedAndChangedWhereTheyLie) {
  const auto learner = make(spec_);
  const float* const place = learner.model->parameters_in_place();
  const std::int64_t writes = learner.model->writes();
  std::vector<float> changed = parameters(learner);
  for (float& value : changed) value *= 2;
  learner.model->visit_parameters([&](std::int64_t first, std::span<const float> run) {
    EXPECT_EQ(first, 0);
    EXPECT_EQ(run.data(), place);
    EXPECT_EQ(std::ssize(run), learner.model->value_count());
  });
  EXPECT_EQ(learner.model->writes(), writes);
  learner.model->change_parameters([&](std::int64_t, std::span<float> run) {
    EXPECT_EQ(run.data(), place);
    for (float& value : run) value *= 2;
  });
  EXPECT_EQ(parameters(learner), changed);
  EXPECT_GT(learner.model->writes(), writes) << "members of a group get them anew";
}

TEST_F(LearnerTest, RecomputedBlocksTakeTheSameSteps) {
  const auto kept = make(spec_);
  spec_.swarm.recompute = Recompute::kRecompute;
  const auto again = make(spec_);
  StepResult result;
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(kept->train_step(Steps(i), i * 6, result));
    ASSERT_FALSE(again->train_step(Steps(i), i * 6, result));
  }
  EXPECT_EQ(parameters(kept), parameters(again));
}

TEST_F(LearnerTest, NonFiniteStepsAreSkippedAndCounted) {
  const auto learner = make(spec_);
  auto broken = parameters(learner);
  broken[0] = std::numeric_limits<float>::quiet_NaN();
  broken.back() = std::numeric_limits<float>::infinity();
  learner.model->write_parameters(broken);
  StepResult result;
  ASSERT_FALSE(learner->train_step(Steps(5), 0, result));
  ASSERT_FALSE(learner->train_step(Steps(6), 6, result));
  EXPECT_FALSE(result.finite);
  EXPECT_EQ(learner.model->nonfinite_in_a_row(), 2);
  EXPECT_EQ(learner.model->adam_step(), 0);
  learner.model->seed();
  ASSERT_FALSE(learner->train_step(Steps(7), 12, result));
  EXPECT_EQ(learner.model->nonfinite_in_a_row(), 0);
  EXPECT_EQ(learner.model->adam_step(), 1);
}

TEST_F(LearnerTest, MuonLearnsARepeatedSentence) {
  spec_.train.optimizer = Optimizer::kMuon;
  for (const ModelFamily family : {ModelFamily::kLlama, ModelFamily::kGpt2}) {
    spec_.model.family = family;
    spec_.model.kv_heads = 0;
    const auto learner = make(spec_);
    StepResult result;
    for (int i = 0; i < 60; ++i) ASSERT_FALSE(learner->train_step(Steps(i), i * 6, result));
    EXPECT_LT(result.loss, 1.5) << to_string(family);
  }
}

class LearnerOf : public LearnerTest, public testing::WithParamInterface<Optimizer> {};
INSTANTIATE_TEST_SUITE_P(Learner, LearnerOf, testing::Values(Optimizer::kAdamw, Optimizer::kMuon));

TEST_P(LearnerOf, StateMovesToAnotherLearner) {
  spec_.train.optimizer = GetParam();
  const auto a = make(spec_);
  StepResult result;
  for (int i = 0; i < 3; ++i) ASSERT_FALSE(a->train_step(Steps(i), i * 6, result));
  const auto b = make(spec_);
  std::vector<float> m(static_cast<std::size_t>(a.model->value_count()));
  std::vector<float> v(static_cast<std::size_t>(a.model->second_moment_count()));
  a.model->read_adam(m, v);
  b.model->write_parameters(parameters(a));
  b.model->write_adam(m, v, a.model->adam_step());
  ASSERT_FALSE(a->train_step(Steps(3), 18, result));
  ASSERT_FALSE(b->train_step(Steps(3), 18, result));
  EXPECT_EQ(parameters(a), parameters(b));
}

TEST_F(LearnerTest, Bf16IsRefusedOnACpu) {
  spec_.train.precision = Precision::kBf16;
  const JobSpec spec = with_derived_fields(spec_);
  std::unique_ptr<StageModel> model;
  const auto failure = StageModel::create(spec, whole_model(spec.model), {}, model);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ReplicaFailure::kModelDoesNotFit);
  EXPECT_THAT(failure->detail, testing::HasSubstr("bf16"));
}

TEST_F(LearnerTest, ATiedModelHasNoParts) {
  spec_.model.tie_embeddings = true;
  const JobSpec spec = with_derived_fields(spec_);
  std::unique_ptr<StageModel> model;
  const auto failure = StageModel::create(spec, {0, 2}, {}, model);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ReplicaFailure::kModelDoesNotFit);
  EXPECT_THAT(failure->detail, testing::HasSubstr("tie_embeddings"));
}

TEST_F(LearnerTest, TooManyNonFiniteStepsAreAFailure) {
  const auto learner = make(spec_);
  auto broken = parameters(learner);
  for (float& value : broken) value = std::numeric_limits<float>::quiet_NaN();
  learner.model->write_parameters(broken);
  StepResult result;
  for (int i = 0; i < 9; ++i) ASSERT_FALSE(learner->train_step(Steps(i), i * 6, result));
  const auto failure = learner->train_step(Steps(9), 54, result);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ReplicaFailure::kNonFiniteLoss);
}

TEST(Slowdown, ASlowerDeviceWaitsTheRestOfItsTime) {
  using std::chrono::milliseconds;
  EXPECT_EQ(extra_wait(milliseconds(10), 1), milliseconds(0));
  EXPECT_EQ(extra_wait(milliseconds(10), 0.5), milliseconds(10));
  EXPECT_EQ(extra_wait(milliseconds(10), 0.25), milliseconds(30));
}

TEST_F(LearnerTest, OutOfMemoryHasItsName) {
  const auto failure = guarded([] {
    std::vector<float> huge;
    huge.reserve(huge.max_size() / 2);
  });
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ReplicaFailure::kOutOfMemory);
  const auto lost =
      guarded([] { throw std::runtime_error("CUDA error: device-side assert\nframe #0"); });
  EXPECT_EQ(lost->kind, ReplicaFailure::kDeviceLost);
  EXPECT_EQ(lost->detail, "CUDA error: device-side assert");
}

}  // namespace
}  // namespace shoal::trainer
