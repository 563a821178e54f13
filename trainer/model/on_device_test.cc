// The same training on a CUDA device as on the host, eagerly and by a CUDA graph, in fp32 and bf16,
// and what happens when its memory does not suffice. Skipped, by name, where there is no device.
#include <cmath>
#include <functional>

#include <gmock/gmock.h>

#include "trainer/model/fused_ops.h"
#include "trainer/model/learner.h"
#include "trainer/model/microbatch_pass.h"
#include "trainer/model/stage_model_parts.h"
#include "trainer/model/tiny_job_test_util.h"
#include "trainer/plain/rope.h"

namespace shoal::trainer {
namespace {

const DeviceChoice kDevice{DeviceKind::kCuda, 0, 1};

struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters;
  bool captured = false;
};

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    static const Status there = prepare_device(kDevice);  // once in a process
    if (!there) GTEST_SKIP() << there.error().message;
  }

  // Some steps of a Llama whose queries share heads of keys, the last microbatch of each a smaller
  // one.
  Trained train(const DeviceChoice& device, Precision precision) {
    JobSpec spec = spec_;
    spec.train.precision = precision;
    auto data = Dataset::open(spec, data::DataRoots::whole_host());
    std::unique_ptr<StageModel> model;
    const auto failure = StageModel::create(spec, whole_model(spec.model), device, model);
    EXPECT_FALSE(failure) << failure->detail;
    model->seed();
    Learner learner(*model, std::move(*data));
    Trained trained;
    for (int i = 0; i < 8; ++i) {
      StepResult result;
      const auto broke = learner.train_step(Steps(i), i * spec.train.batch, result);
      EXPECT_FALSE(broke) << broke->detail;
      trained.losses.push_back(result.loss);
    }
    EvalSum sum;
    EXPECT_FALSE(learner.evaluate_batch(0, 1, sum));
    trained.losses.push_back(sum.loss_sum / static_cast<double>(sum.tokens.count()));
    trained.parameters.resize(static_cast<std::size_t>(model->value_count()));
    model->read_parameters(trained.parameters);
    return trained;
  }
  void expect_losses_near(const Trained& one, const Trained& other, double tolerance) {
    for (std::size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(one.losses[i], other.losses[i], tolerance) << "step " << i;
    }
  }

  const JobSpec spec_ = [] {
    JobSpec spec = tiny_job(SyncAlgorithm::kDiloco, 7, Steps(20));
    spec.train.microbatch = 3;
    return with_derived_fields(spec);
  }();
};

TEST_F(OnDevice, StepsInFp32AreThoseOfTheHost) {
  const Trained host = train({}, Precision::kFp32), device = train(kDevice, Precision::kFp32);
  expect_losses_near(device, host, 2e-3);
  double worst = 0;
  for (std::size_t i = 0; i < host.parameters.size(); ++i) {
    worst = std::max(worst, std::abs(1.0 * host.parameters[i] - device.parameters[i]));
  }
  EXPECT_LT(worst, 5e-3);
}

TEST_F(OnDevice, StepsInBf16AreNearThoseInFp32) {
  expect_losses_near(train(kDevice, Precision::kBf16), train({}, Precision::kFp32), 0.05);
}

// The graph is kept, so release() finds one.
TEST_F(OnDevice, AGraphGivesTheGradientsOfEagerPasses) {
  const torch::Device cuda(torch::kCUDA, 0);
  Model model(spec_.model, whole_model(spec_.model), Precision::kBf16, cuda);
  torch::manual_seed(4);
  model.flat().copy_(torch::randn_like(model.flat()) * 0.05);
  MicrobatchPass eager(model, 3, 0.1, {}), captured(model, 3, 0.1, cuda_graphs_of(kDevice));
  for (int step = 0; step < 5; ++step) {
    const auto tokens =
        torch::randint(0, 256, {3, spec_.model.context + 1}, torch::kInt64).pin_memory();
    eager.begin();
    eager.add(tokens);
    const double loss = eager.loss();
    const auto gradient = model.flat_gradient().clone();
    captured.begin();
    captured.add(tokens);
    EXPECT_NEAR(captured.loss(), loss, 1e-3 * std::abs(loss));
    const double distance = (model.flat_gradient() - gradient).norm().item<double>();
    EXPECT_LT(distance, 2e-2 * gradient.norm().item<double>());
  }
  EXPECT_TRUE(captured.release());
}

TEST_F(OnDevice, OperationsGiveWhatTheHostGives) {
  torch::manual_seed(5);
  const torch::Device cuda(torch::kCUDA, 0);
  const AttentionShape shape{2, 130, 4, 2, 16};
  const auto frequencies = rope_frequencies({}, shape.head);
  const auto attention = [&](const torch::Tensor& x) {
    return causal_attention(x, shape, rotary_table(shape.tokens, frequencies, x.device()));
  };
  const auto norm = [](const torch::Tensor& x) { return rms_norm(x, x.detach()[0], 1e-5); };
  const std::vector<std::function<torch::Tensor(const torch::Tensor&)>> operations = {
      attention, norm, swiglu, gelu_tanh};
  for (const auto& operation : operations) {
    auto here = torch::randn({shape.batch * shape.tokens, 8 * shape.head});
    auto there = here.to(cuda);
    here.set_requires_grad(true);
    there.set_requires_grad(true);
    const auto expected = operation(here), result = operation(there);
    EXPECT_TRUE(torch::allclose(result.detach().cpu(), expected.detach(), 1e-4, 1e-4));
    const auto upstream = torch::randn_like(expected);
    expected.backward(upstream);
    result.backward(upstream.to(cuda));
    EXPECT_TRUE(torch::allclose(there.grad().cpu(), here.grad(), 1e-4, 1e-4));
  }
}

TEST_F(OnDevice, AModelWithoutRoomIsOutOfMemoryByName) {
  JobSpec spec = spec_;
  spec.model.hidden = 1 << 16;  // about 27e9 values per block
  spec.model.layers = 64;
  spec.model.ffn = 0;
  spec = with_derived_fields(spec);
  std::unique_ptr<StageModel> model;
  const auto failure = StageModel::create(spec, whole_model(spec.model), kDevice, model);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, ReplicaFailure::kOutOfMemory);
  EXPECT_THAT(failure->detail, testing::HasSubstr("out of memory"));
  train(kDevice, Precision::kFp32);  // the device is still of use
}

}  // namespace
}  // namespace shoal::trainer
