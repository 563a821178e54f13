// A few steps lower the loss; microbatches change nothing but rounding; non-finite steps are
// skipped; refusals have names.
#include "trainer/learner.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>

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
  std::unique_ptr<Learner> make(const JobSpec& spec) {
    auto data = Dataset::open(spec);
    EXPECT_TRUE(data.ok());
    std::unique_ptr<Learner> learner;
    const auto failure = Learner::create(with_derived_fields(spec), std::move(*data), {}, learner);
    EXPECT_FALSE(failure.has_value()) << failure->detail;
    learner->seed();
    return learner;
  }
  std::vector<float> parameters(const Learner& learner) {
    std::vector<float> out(static_cast<std::size_t>(learner.value_count()));
    learner.read_parameters(out);
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
  EXPECT_EQ(parameters(*a), parameters(*b));
}

TEST_F(LearnerTest, NonFiniteStepsAreSkippedAndCounted) {
  const auto learner = make(spec_);
  auto broken = parameters(*learner);
  broken[0] = std::numeric_limits<float>::quiet_NaN();
  broken.back() = std::numeric_limits<float>::infinity();
  learner->write_parameters(broken);
  StepResult result;
  ASSERT_FALSE(learner->train_step(Steps(5), 0, result));
  ASSERT_FALSE(learner->train_step(Steps(6), 6, result));
  EXPECT_FALSE(result.finite);
  EXPECT_EQ(learner->nonfinite_in_a_row(), 2);
  EXPECT_EQ(learner->adam_step(), 0);
  learner->seed();
  ASSERT_FALSE(learner->train_step(Steps(7), 12, result));
  EXPECT_EQ(learner->nonfinite_in_a_row(), 0);
  EXPECT_EQ(learner->adam_step(), 1);
}

TEST_F(LearnerTest, StateMovesToAnotherLearner) {
  const auto a = make(spec_);
  StepResult result;
  for (int i = 0; i < 3; ++i) ASSERT_FALSE(a->train_step(Steps(i), i * 6, result));
  const auto b = make(spec_);
  std::vector<float> m(static_cast<std::size_t>(a->value_count())), v(m.size());
  a->read_adam(m, v);
  b->write_parameters(parameters(*a));
  b->write_adam(m, v, a->adam_step());
  ASSERT_FALSE(a->train_step(Steps(3), 18, result));
  ASSERT_FALSE(b->train_step(Steps(3), 18, result));
  EXPECT_EQ(parameters(*a), parameters(*b));
}

TEST_F(LearnerTest, Bf16IsRefusedOnACpu) {
  spec_.train.precision = Precision::kBf16;
  std::unique_ptr<Learner> learner;
  const auto failure = Learner::create(with_derived_fields(spec_), nullptr, {}, learner);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ReplicaFailure::kModelDoesNotFit);
  EXPECT_THAT(failure->detail, testing::HasSubstr("bf16"));
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
