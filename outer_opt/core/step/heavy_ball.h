// SGD with heavy-ball momentum (Polyak 1964; torch.optim.SGD with nesterov=False, dampening 0) on
// the averaged pseudo-gradient; FedAvgM (Hsu et al. 2019) with the same average:
//
//   m     <- momentum * m + d
//   theta <- theta - lr * m                    with the new m
//
// With d = 1, lr 0.5 and momentum 0.5 the steps are 0.5, 0.75, 0.875, … towards
// lr / (1 - momentum) = 1. With momentum 0 it is plain SGD.
#pragma once

#include "base/check.h"
#include "outer_opt/core/step/outer_optimizer.h"

namespace shoal::outer_opt {

class HeavyBall final : public OuterOptimizer {
 public:
  using OuterOptimizer::OuterOptimizer;

  void step(const StepTerms& terms, std::span<const float> average, StateRuns state,
            std::span<float> anchor) const override {
    SHOAL_CHECK(state.size() == 1 && state[0].size() == average.size() &&
                anchor.size() == average.size());
    const auto lr = static_cast<float>(terms.outer_lr);
    const auto beta = static_cast<float>(spec().momentum);
    const float* __restrict d = average.data();
    float* __restrict m = state[0].data();
    float* __restrict theta = anchor.data();
    for (std::size_t i = 0; i < average.size(); ++i) {
      const float kept = beta * m[i];
      const float now = kept + d[i];
      const float move = lr * now;
      m[i] = now;
      theta[i] = theta[i] - move;
    }
  }
};

}  // namespace shoal::outer_opt
