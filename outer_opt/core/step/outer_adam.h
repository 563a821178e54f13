// Adam as the outer optimizer: FedAdam (Reddi et al. 2021, Adaptive Federated Optimization,
// Algorithm 2) with the bias correction of Adam (Kingma and Ba 2015), on the averaged
// pseudo-gradient d:
//
//   m     <- beta1 * m + (1 - beta1) * d
//   v     <- beta2 * v + (1 - beta2) * d * d
//   theta <- theta - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
//
// m and v are state of the outer step, the same on every replica; the moments of the inner AdamW
// are others. eps is the paper's tau: where sqrt(v) is far below it, a step is lr / eps times that
// of SGD. A first step is lr * d / (|d| + eps): lr is about the distance that a value moves.
//
// t is the number of steps of the fragment, (round - 1) / fragments + 1. The last round of a job
// with fragments steps all of them, and some have then had one step more than t says.
#pragma once

#include <cmath>

#include "base/check.h"
#include "base/integer_power.h"
#include "outer_opt/core/step/outer_optimizer.h"

namespace shoal::outer_opt {

class OuterAdam final : public OuterOptimizer {
 public:
  OuterAdam(const OuterSpec& spec, std::int64_t fragments)
      : OuterOptimizer(spec), fragments_(fragments) {}

  void step(const StepTerms& terms, std::span<const float> average, StateRuns state,
            std::span<float> anchor) const override {
    SHOAL_CHECK(terms.round >= 1 && state.size() == 2 && state[0].size() == average.size() &&
                state[1].size() == average.size() && anchor.size() == average.size());
    const std::int64_t t = (terms.round - 1) / fragments_ + 1;
    const auto beta1 = static_cast<float>(spec().beta1), beta2 = static_cast<float>(spec().beta2);
    const float rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
    const auto eps = static_cast<float>(spec().eps);
    const auto rate = static_cast<float>(terms.outer_lr / (1 - integer_power(spec().beta1, t)));
    const auto scale = static_cast<float>(1 / std::sqrt(1 - integer_power(spec().beta2, t)));
    const float* __restrict d = average.data();
    float* __restrict m = state[0].data();
    float* __restrict v = state[1].data();
    float* __restrict theta = anchor.data();
    for (std::size_t i = 0; i < average.size(); ++i) {
      const float kept1 = beta1 * m[i];
      const float new1 = rest1 * d[i];
      m[i] = kept1 + new1;
      const float square = d[i] * d[i];
      const float kept2 = beta2 * v[i];
      const float new2 = rest2 * square;
      v[i] = kept2 + new2;
      const float root = scale * std::sqrt(v[i]);
      const float ahead = rate * m[i];
      const float move = ahead / (root + eps);
      theta[i] = theta[i] - move;
    }
  }

 private:
  std::int64_t fragments_;
};

}  // namespace shoal::outer_opt
