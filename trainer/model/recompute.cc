// See recompute.h. One node stands in the graph for the whole part. Its backward pass is a pass of
// its own over the graph that it makes, which adds to the gradients of the parameters, as the outer
// one would.
#include "trainer/model/recompute.h"

#include <utility>

namespace shoal::trainer {
namespace {

using torch::autograd::AutogradContext;

// What the context of a node keeps besides tensors.
struct HeldForward final : torch::CustomClassHolder {
  explicit HeldForward(Forward f) : forward(std::move(f)) {}
  Forward forward;
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const Forward& forward) {
    context->save_for_backward({input});
    context->saved_data["forward"] =
        c10::IValue::make_capsule(c10::make_intrusive<HeldForward>(forward));
    return forward(input);  // without a graph
  }

  static torch::autograd::variable_list backward(AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::AutoGradMode with_graph(true);
    const auto held = context->saved_data["forward"].toCapsule();
    auto input = context->get_saved_variables().at(0).detach();
    input.set_requires_grad(true);
    const auto& forward = static_cast<const HeldForward&>(*held).forward;
    torch::autograd::backward({forward(input)}, {gradients.at(0)});
    return {input.grad(), torch::Tensor()};  // a function has no gradient
  }
};

}  // namespace

torch::Tensor recomputed(Forward forward, const torch::Tensor& input) {
  if (!torch::GradMode::is_enabled() || !input.requires_grad()) return forward(input);
  return Recompute::apply(input, forward);
}

}  // namespace shoal::trainer
