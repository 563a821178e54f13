// Captured passes give the gradients and losses of eager ones; a capture that fails, or that
// computes something else, is not used; without memory it is given up.
#include "trainer/model/microbatch_pass.h"

#include <functional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "trainer/model/learner.h"
#include "trainer/model/stage_model_parts.h"
#include "trainer/model/tiny_job_test_util.h"

namespace shoal::trainer {
namespace {

constexpr std::int64_t kSequences = 3, kContext = 16;

// What captured work does besides what it should, and how often it did what.
struct Rig {
  std::function<void()> on_capture, on_launch;
  bool launches_nothing = false;
  int captures = 0, launches = 0, alive = 0;
};

// Records on the host what a device would, as far as a caller can tell: a launch reads and writes
// the tensors of the capture.
class HostCapture final : public CapturedWork {
 public:
  explicit HostCapture(Rig& rig) : rig_(rig) { ++rig_.alive; }
  ~HostCapture() override { --rig_.alive; }

  void capture(const std::function<void()>& work) override {
    ++rig_.captures;
    work();
    if (rig_.on_capture) rig_.on_capture();
    work_ = work;
  }
  void launch() override {
    ++rig_.launches;
    if (rig_.on_launch) rig_.on_launch();
    if (!rig_.launches_nothing) work_();
  }

 private:
  Rig& rig_;
  std::function<void()> work_;
};

MakeCapturedWork captured_by(Rig& rig) {
  return [&rig] { return std::make_unique<HostCapture>(rig); };
}

class MicrobatchPassTest : public testing::Test {
 protected:
  MicrobatchPassTest() {
    torch::manual_seed(3);
    model_.flat().copy_(torch::randn_like(model_.flat()) * 0.05);
    for (std::int64_t count : {kSequences, kSequences, kSequences, kSequences - 1}) {
      tokens_.push_back(torch::randint(0, 256, {count, kContext + 1}, torch::kInt64));
    }
  }

  std::pair<double, torch::Tensor> step(MicrobatchPass& pass) {
    pass.begin();
    for (const auto& tokens : tokens_) pass.add(tokens);
    return {pass.loss(), model_.flat_gradient().clone()};
  }
  void expect_steps_of_an_eager_pass(MicrobatchPass& pass) {
    MicrobatchPass eager(model_, kSequences, 0.5, {});
    const auto [loss, gradient] = step(eager);
    for (int i = 0; i < 3; ++i) {
      const auto [its_loss, its_gradient] = step(pass);
      EXPECT_DOUBLE_EQ(its_loss, loss);
      EXPECT_TRUE(torch::equal(its_gradient, gradient));
    }
  }
  // One capture is tried, given up with this reason, and changes nothing.
  void expect_to_stay_eager(const std::string& why) {
    MicrobatchPass pass(model_, kSequences, 0.5, captured_by(rig_));
    testing::internal::CaptureStderr();
    expect_steps_of_an_eager_pass(pass);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::EndsWith("without a CUDA graph: " + why + "\n"));
    EXPECT_EQ(rig_.captures, 1);
    EXPECT_EQ(rig_.alive, 0);
  }

  const ModelSpec spec_ =
      with_derived_fields(tiny_job(SyncAlgorithm::kDiloco, kSequences, Steps(10))).model;
  Model model_{spec_, whole_model(spec_), Precision::kFp32, torch::kCPU};
  std::vector<torch::Tensor> tokens_;
  Rig rig_;
};

TEST_F(MicrobatchPassTest, CapturedOnesGiveTheGradientAndLossOfEagerOnes) {
  MicrobatchPass pass(model_, kSequences, 0.5, captured_by(rig_));
  expect_steps_of_an_eager_pass(pass);
  EXPECT_EQ(rig_.captures, 1);
  EXPECT_EQ(rig_.launches, 9);  // three steps of three full microbatches; the fourth is eager
}

TEST_F(MicrobatchPassTest, ACaptureThatComputesSomethingElseIsNotUsed) {
  rig_.launches_nothing = true;
  expect_to_stay_eager("its gradient differs from the one without");
  EXPECT_EQ(rig_.launches, 1);
}

TEST_F(MicrobatchPassTest, ACaptureThatFailsChangesNothing) {
  rig_.on_capture = [] { throw std::runtime_error("operation not permitted\nbacktrace"); };
  expect_to_stay_eager("operation not permitted");
  EXPECT_EQ(rig_.launches, 0);
}

TEST_F(MicrobatchPassTest, OtherSizesAreNotCaptured) {
  tokens_.erase(tokens_.begin(), tokens_.begin() + 3);
  MicrobatchPass pass(model_, kSequences, 0.5, captured_by(rig_));
  expect_steps_of_an_eager_pass(pass);
  EXPECT_EQ(rig_.captures, 0);
}

class LearnerWithCaptureTest : public testing::Test {
 protected:
  LearnerWithCaptureTest() {
    auto data = Dataset::open(spec_, data::DataRoots::whole_host());
    EXPECT_TRUE(data.ok());
    EXPECT_FALSE(StageModel::create(spec_, whole_model(spec_.model), {}, model_));
    model_->seed();
    learner_ = std::make_unique<Learner>(*model_, std::move(*data), nullptr, captured_by(rig_));
  }

  const JobSpec spec_ = tiny_job(SyncAlgorithm::kDiloco, 6, Steps(10));
  Rig rig_;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<Learner> learner_;
};

TEST_F(LearnerWithCaptureTest, WithoutMemoryTheCaptureIsGivenUpAndTheStepComputedAgain) {
  StepResult first, result;
  ASSERT_FALSE(learner_->train_step(Steps(0), 0, first));
  ASSERT_EQ(rig_.alive, 1);
  rig_.on_launch = [] { throw std::runtime_error("CUDA out of memory. Tried to allocate 2 GiB"); };
  ASSERT_FALSE(learner_->train_step(Steps(1), 6, result));
  EXPECT_EQ(rig_.alive, 0);
  EXPECT_TRUE(result.finite);
  EXPECT_NEAR(result.loss, first.loss, 1);
  ASSERT_FALSE(learner_->train_step(Steps(2), 12, result));
  EXPECT_EQ(rig_.captures, 1);
}

TEST_F(LearnerWithCaptureTest, ALostDeviceIsNamed) {
  StepResult result;
  ASSERT_FALSE(learner_->train_step(Steps(0), 0, result));
  rig_.on_launch = [] { throw std::runtime_error("CUDA error: unspecified launch failure"); };
  const auto failure = learner_->train_step(Steps(1), 6, result);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, ReplicaFailure::kDeviceLost);
}

}  // namespace
}  // namespace shoal::trainer
