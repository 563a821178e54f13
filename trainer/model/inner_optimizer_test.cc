// AdamW: two steps calculated by hand, decay on its ranges only, and the same result from the fused
// loop and from torch's formula. Muon beside it: who moves what.
#include "trainer/model/inner_optimizer.h"

#include <cmath>

#include <gtest/gtest.h>

#include "trainer/model/muon.h"

namespace shoal::trainer {
namespace {

TrainSpec spec_of() {
  TrainSpec spec;
  spec.beta1 = 0.9;
  spec.beta2 = 0.99;
  spec.weight_decay = 0.1;
  return spec;
}

InnerOptimizer adamw_of(std::vector<AdamRange> ranges, std::int64_t count) {
  return {spec_of(), {std::move(ranges), {}, count}, count, torch::kFloat32};
}

TEST(InnerOptimizer, FirstStepsByHand) {
  auto parameters = torch::tensor({1.0f, 1.0f});
  auto adam = adamw_of({{0, 1, true, 0}, {1, 1, false, 1}}, 2);
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

TEST(InnerOptimizer, GradientScaleIsAppliedToTheGradient) {
  auto a = torch::tensor({1.0f}), b = torch::tensor({1.0f});
  auto first = adamw_of({{0, 1, true, 0}}, 1), second = adamw_of({{0, 1, true, 0}}, 1);
  first.step(0.1, 0.25, torch::tensor({4.0f}), a);
  second.step(0.1, 1.0, torch::tensor({1.0f}), b);
  EXPECT_TRUE(torch::equal(first.m(), second.m()));
  EXPECT_TRUE(torch::equal(first.v(), second.v()));
}

// Two runs, the first of which takes its step in several pieces.
TEST(InnerOptimizer, PiecesOnADeviceAreTheFusedLoopOnTheHost) {
  torch::manual_seed(2);
  constexpr std::int64_t kFirst = 300'001, kSecond = 70'000;
  const std::vector<AdamRange> ranges = {{0, kFirst, true, 0},
                                         {kFirst + 5, kSecond, false, kFirst}};
  auto fused = torch::randn({kFirst + 5 + kSecond}), pieces = fused.clone();
  const auto untouched = fused.narrow(0, kFirst, 5).clone();
  InnerOptimizer one(spec_of(), {ranges, {}, kFirst + kSecond}, fused.numel(), torch::kFloat32);
  InnerOptimizer two(spec_of(), {ranges, {}, kFirst + kSecond}, fused.numel(), torch::kFloat32);
  for (int i = 0; i < 3; ++i) {
    const auto gradient = torch::randn_like(fused);
    one.step(0.01, 0.5, gradient, fused);
    two.step_by_torch(0.01, 0.5, gradient, pieces);
  }
  EXPECT_TRUE(torch::allclose(fused, pieces, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(one.v(), two.v(), 1e-5, 1e-8));
  EXPECT_TRUE(torch::equal(pieces.narrow(0, kFirst, 5), untouched));
}

TEST(InnerOptimizer, LongVectorMatchesTorch) {
  torch::manual_seed(1);
  auto parameters = torch::randn({1000});
  auto theirs = parameters.clone().set_requires_grad(true);
  auto adam = adamw_of({{0, 1000, true, 0}}, 1000);
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

// A vector, two matrices side by side (columns 0 and 1 of three rows), a vector: the vectors move
// as with AdamW alone, each matrix as by muon_step() alone.
TEST(InnerOptimizer, MuonHasTheMatricesAndAdamWTheRest) {
  torch::manual_seed(3);
  auto parameters = torch::randn({12});
  const auto before = parameters.clone(), gradient = torch::randn({12});
  const OptimizerLayout layout{
      {{0, 2, true, 0}, {8, 4, false, 2}}, {{2, 3, 1, 2}, {3, 3, 1, 2}}, 6};
  InnerOptimizer both(spec_of(), layout, 12, torch::kFloat32);
  auto adam = adamw_of({{0, 2, true, 0}, {2, 10, false, 2}}, 12);
  auto by_adam = before.clone();
  both.step(0.1, 0.5, gradient, parameters);
  adam.step(0.1, 0.5, gradient, by_adam);
  EXPECT_TRUE(torch::equal(parameters.narrow(0, 0, 2), by_adam.narrow(0, 0, 2)));
  EXPECT_TRUE(torch::equal(parameters.narrow(0, 8, 4), by_adam.narrow(0, 8, 4)));
  EXPECT_TRUE(
      torch::equal(both.v(), torch::cat({adam.v().narrow(0, 0, 2), adam.v().narrow(0, 8, 4)})));
  for (std::int64_t column = 0; column < 2; ++column) {
    const auto part = [&](const torch::Tensor& flat) {
      return flat.narrow(0, 2, 6).view({3, 2}).narrow(1, column, 1);
    };
    auto momentum = torch::zeros({3, 1}), values = part(before).clone();
    muon_step(0.1, 0.1 * 0.1, part(gradient) * 0.5, momentum, values);
    EXPECT_TRUE(torch::allclose(values, part(parameters))) << column;
    EXPECT_TRUE(torch::allclose(momentum, part(both.m()))) << column;
  }
}

TEST(InnerOptimizer, GradientNorm) {
  EXPECT_DOUBLE_EQ(InnerOptimizer::gradient_norm(torch::tensor({3.0f, 4.0f})), 5.0);
  EXPECT_FALSE(std::isfinite(InnerOptimizer::gradient_norm(torch::tensor({3.0f, NAN}))));
}

}  // namespace
}  // namespace shoal::trainer
