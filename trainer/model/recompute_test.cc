// A model that recomputes its blocks has the same gradients bit for bit, and keeps less.
#include "trainer/model/recompute.h"

#include <set>

#include <gtest/gtest.h>

#include "trainer/model/model.h"

namespace shoal::trainer {
namespace {

ModelSpec model_of(ModelFamily family) {
  JobSpec spec;
  spec.model = {family, 3, 16, 2, 0, 0, 8, 11};
  return with_derived_fields(spec).model;
}

std::size_t nodes_behind(const torch::Tensor& value) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open = {value.grad_fn().get()};
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return seen.size();
}

class RecomputeTest : public testing::TestWithParam<ModelFamily> {};

TEST_P(RecomputeTest, GradientsHaveTheSameBits) {
  const ModelSpec spec = model_of(GetParam());
  Model kept(spec, whole_model(spec), Precision::kFp32, torch::kCPU);
  Model again(spec, whole_model(spec), Precision::kFp32, torch::kCPU);
  torch::manual_seed(7);
  kept.flat().normal_(0, 0.2);
  again.flat().copy_(kept.flat());
  again.network().recompute_blocks();
  const auto tokens = torch::randint(0, 11, {2, 8}, torch::kInt64);
  const auto targets = torch::randint(0, 11, {2, 8}, torch::kInt64);
  for (int i = 0; i < 2; ++i) {  // the second adds to the first
    const auto loss = kept.loss(tokens, targets, 1.0 / 16);
    const auto same = again.loss(tokens, targets, 1.0 / 16);
    EXPECT_TRUE(torch::equal(loss, same));
    EXPECT_LT(nodes_behind(same), nodes_behind(loss));
    loss.backward();
    same.backward();
  }
  EXPECT_GT(kept.flat_gradient().norm().item<double>(), 0);
  EXPECT_TRUE(torch::equal(kept.flat_gradient(), again.flat_gradient()));
}

TEST_P(RecomputeTest, WithoutGradientsThereIsNoGraph) {
  const ModelSpec spec = model_of(GetParam());
  Model model(spec, whole_model(spec), Precision::kFp32, torch::kCPU);
  model.network().recompute_blocks();
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(model.logits(torch::zeros({1, 8}, torch::kInt64)).requires_grad());
}

INSTANTIATE_TEST_SUITE_P(Families, RecomputeTest,
                         testing::Values(ModelFamily::kLlama, ModelFamily::kGpt2));

}  // namespace
}  // namespace shoal::trainer
