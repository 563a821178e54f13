// Two steps calculated by hand, decay on its ranges only, and the same result from the fused loop
// and from torch's formula.
#include "trainer/adamw.h"

#include <cmath>

#include <gtest/gtest.h>

namespace shoal::trainer {
namespace {

TrainSpec spec_of() {
  TrainSpec spec;
  spec.beta1 = 0.9;
  spec.beta2 = 0.99;
  spec.weight_decay = 0.1;
  return spec;
}

TEST(AdamW, FirstStepsByHand) {
  auto parameters = torch::tensor({1.0f, 1.0f});
  AdamW adam(spec_of(), {{0, 1, true}, {1, 1, false}}, parameters);
  // Step 1, g = 2: m = 0.2, v = 0.04; corrected 2 and 4; the step is lr * 2 / 2 = lr.
  adam.step(0.5, 1.0, torch::tensor({2.0f, 2.0f}), parameters);
  EXPECT_NEAR(parameters[0].item<float>(), 1.0 - 0.5 * 0.1 - 0.5, 1e-6);
  EXPECT_NEAR(parameters[1].item<float>(), 1.0 - 0.5, 1e-6);
  EXPECT_NEAR(adam.m()[0].item<float>(), 0.2, 1e-7);
  EXPECT_NEAR(adam.v()[0].item<float>(), 0.04, 1e-7);
  // Step 2, g = -1: m = 0.08, v = 0.0496; corrected by 0.19 and 0.0199.
  adam.step(0.5, 1.0, torch::tensor({-1.0f, -1.0f}), parameters);
  const double move = 0.5 * (0.08 / 0.19) / (std::sqrt(0.0496 / 0.0199) + 1e-8);
  EXPECT_NEAR(parameters[1].item<float>(), 0.5 - move, 1e-6);
  EXPECT_NEAR(parameters[0].item<float>(), 0.45 - 0.05 * 0.45 - move, 1e-6);
  EXPECT_EQ(adam.steps(), 2);
}

TEST(AdamW, GradientScaleIsAppliedToTheGradient) {
  auto a = torch::tensor({1.0f}), b = torch::tensor({1.0f});
  AdamW first(spec_of(), {{0, 1, true}}, a), second(spec_of(), {{0, 1, true}}, b);
  first.step(0.1, 0.25, torch::tensor({4.0f}), a);
  second.step(0.1, 1.0, torch::tensor({1.0f}), b);
  EXPECT_TRUE(torch::equal(first.m(), second.m()));
  EXPECT_TRUE(torch::equal(first.v(), second.v()));
}

TEST(AdamW, LongVectorMatchesTorch) {
  torch::manual_seed(1);
  auto parameters = torch::randn({1000});
  auto theirs = parameters.clone().set_requires_grad(true);
  AdamW adam(spec_of(), {{0, 1000, true}}, parameters);
  torch::optim::AdamW torch_adam(
      {theirs}, torch::optim::AdamWOptions(0.01).betas({0.9, 0.99}).eps(1e-8).weight_decay(0.1));
  for (int i = 0; i < 20; ++i) {
    const auto gradient = torch::randn({1000});
    adam.step(0.01, 1.0, gradient, parameters);
    theirs.mutable_grad() = gradient;
    torch_adam.step();
  }
  EXPECT_LT((parameters - theirs.detach()).abs().max().item<double>(), 1e-5);
}

TEST(AdamW, GradientNorm) {
  EXPECT_DOUBLE_EQ(AdamW::gradient_norm(torch::tensor({3.0f, 4.0f})), 5.0);
  EXPECT_FALSE(std::isfinite(AdamW::gradient_norm(torch::tensor({3.0f, NAN}))));
}

}  // namespace
}  // namespace shoal::trainer
