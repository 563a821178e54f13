// Gradients against finite differences on tiny models, views that alias the flat vectors,
// causality.
#include "trainer/model/model.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::trainer {
namespace {

enum class Kind { kLlama, kQwen2, kGpt2 };

// Qwen2: biases, and heads whose size does not follow from the width.
ModelSpec tiny(Kind kind) {
  JobSpec spec;
  const auto family = kind == Kind::kGpt2 ? ModelFamily::kGpt2 : ModelFamily::kLlama;
  spec.model = {family, 2, 8, 2, family == ModelFamily::kLlama ? 1 : 0, 0, 6, 11};
  if (kind == Kind::kQwen2) {
    spec.model.head_dim = 6;
    spec.model.qkv_bias = true;
    spec.model.tie_embeddings = true;
  }
  return with_derived_fields(spec).model;
}

class ModelTest : public testing::TestWithParam<Kind> {
 protected:
  ModelTest()
      : model_(tiny(GetParam()), whole_model(tiny(GetParam())), Precision::kFp32, torch::kCPU) {
    torch::manual_seed(3);
    std::vector<float> initial(static_cast<std::size_t>(model_.flat().numel()));
    initialize(model_.layout(), 5, initial);
    model_.flat().copy_(torch::from_blob(initial.data(), {model_.flat().numel()}));
    model_.flat().add_(torch::randn_like(model_.flat()) * 0.3);  // away from symmetric points
    tokens_ = torch::randint(0, 11, {2, 6}, torch::kInt64);
    targets_ = torch::randint(0, 11, {2, 6}, torch::kInt64);
  }
  double loss() {
    const torch::NoGradGuard no_grad;
    return model_.loss(tokens_, targets_, 1.0 / 12).item<double>();
  }

  Model model_;
  torch::Tensor tokens_, targets_;
};

// Directional derivatives along random directions inside each tensor: one difference tests all its
// values.
TEST_P(ModelTest, GradientsMatchFiniteDifferences) {
  model_.loss(tokens_, targets_, 1.0 / 12).backward();
  const auto gradient = model_.flat_gradient().clone();
  for (const TensorSlot& slot : model_.layout()) {
    auto direction = torch::zeros_like(model_.flat());
    direction.narrow(0, slot.first, slot.count).normal_();
    direction /= direction.norm();
    const double h = 5e-3;
    const auto original = model_.flat().clone();
    model_.flat().add_(direction, h);
    const double above = loss();
    model_.flat().copy_(original).add_(direction, -h);
    const double below = loss();
    model_.flat().copy_(original);
    const double expected = (above - below) / (2 * h);
    EXPECT_NEAR(gradient.dot(direction).item<double>(), expected, 2e-4 + 5e-3 * std::fabs(expected))
        << slot.name;
  }
}

TEST_P(ModelTest, ParametersAndGradientsAreViewsOfTheFlatVectors) {
  const float* begin = model_.flat().data_ptr<float>();
  const float* gradient = model_.flat_gradient().data_ptr<float>();
  std::int64_t covered = 0;
  for (const auto& parameter : model_.network().parameters()) {
    const auto offset = parameter.data_ptr<float>() - begin;
    EXPECT_GE(offset, 0);
    EXPECT_LE(offset + parameter.numel(), model_.flat().numel());
    EXPECT_EQ(parameter.grad().data_ptr<float>(), gradient + offset);
    covered += parameter.numel();
  }
  EXPECT_EQ(covered, model_.flat().numel());
  model_.loss(tokens_, targets_, 1.0).backward();
  model_.loss(tokens_, targets_, 1.0).backward();  // accumulates in place
  for (const auto& parameter : model_.network().parameters()) {
    const auto offset = parameter.data_ptr<float>() - begin;
    EXPECT_EQ(parameter.grad().data_ptr<float>(), gradient + offset);
  }
  EXPECT_GT(model_.flat_gradient().norm().item<double>(), 0);
}

TEST_P(ModelTest, LaterTokensDoNotChangeEarlierLogits) {
  const torch::NoGradGuard no_grad;
  const auto before = model_.logits(tokens_).view({2, 6, 11});
  auto changed = tokens_.clone();
  changed.select(1, 4).fill_(0);
  changed.select(1, 5).fill_(1);
  const auto after = model_.logits(changed).view({2, 6, 11});
  EXPECT_LT((before - after).narrow(1, 0, 4).abs().max().item<double>(), 1e-6);
  EXPECT_GT((before - after).narrow(1, 4, 2).abs().max().item<double>(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelTest,
                         testing::Values(Kind::kLlama, Kind::kQwen2, Kind::kGpt2));

}  // namespace
}  // namespace shoal::trainer
