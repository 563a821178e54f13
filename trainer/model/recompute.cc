// See recompute.h. One node stands in the graph for the whole part. Its backward pass is a pass of
// its own over the graph that it makes, which adds to the gradients of the parameters, as the outer
// one would.
#include "trainer/model/recompute.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace shoal::trainer {
namespace {

class Recompute final : public torch::autograd::Node {
 public:
  Recompute(Forward forward, const torch::Tensor& input)
      : forward_(std::move(forward)), input_(input.detach()) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const torch::AutoGradMode with_graph(true);
    auto input = input_.detach();
    input.set_requires_grad(true);
    torch::autograd::backward({forward_(input)}, {gradients.at(0)});
    return {input.grad()};
  }
  void release_variables() override { input_.reset(); }

 private:
  Forward forward_;
  torch::Tensor input_;
};

}  // namespace

torch::Tensor recomputed(Forward forward, const torch::Tensor& input) {
  if (!torch::GradMode::is_enabled() || !input.requires_grad()) return forward(input);
  torch::Tensor result;
  {
    const torch::NoGradGuard no_graph;
    result = forward(input);
  }
  const auto node = std::shared_ptr<Recompute>(new Recompute(std::move(forward), input),
                                               torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(input));
  torch::autograd::set_history(result, node);
  return result;
}

}  // namespace shoal::trainer
