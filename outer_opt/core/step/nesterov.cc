// The outer step as one pass over memory. Each statement is one rounding; the build forbids
// contraction (cmake/Toolchain.cmake), and the loop has no reduction, so vectorizing it cannot
// change a bit.
#include "outer_opt/core/step/nesterov.h"

#include <cmath>

#include "base/check.h"

namespace shoal::outer_opt {

void nesterov_step(const OuterSpec& options, std::span<const float> average,
                   std::span<float> momentum, std::span<float> anchor) {
  SHOAL_CHECK(average.size() == momentum.size() && average.size() == anchor.size());
  const auto lr = static_cast<float>(options.lr);
  const auto beta = static_cast<float>(options.momentum);
  const float* __restrict d = average.data();
  float* __restrict m = momentum.data();
  float* __restrict theta = anchor.data();
  for (std::size_t i = 0; i < average.size(); ++i) {
    const float kept = beta * m[i];
    const float now = kept + d[i];
    const float ahead = beta * now;
    const float direction = d[i] + ahead;
    const float step = lr * direction;
    m[i] = now;
    theta[i] = theta[i] - step;
  }
}

void Nesterov::step(const StepTerms& terms, std::span<const float> average, StateRuns state,
                    std::span<float> anchor) const {
  SHOAL_CHECK(state.size() == 1);
  nesterov_step({terms.outer_lr, spec().momentum}, average, state[0], anchor);
}

void owner_step(const OwnerTerms& outer, std::span<const float> momentum,
                std::span<float> average) {
  SHOAL_CHECK(momentum.size() == average.size());
  const auto lr = static_cast<float>(outer.lr);
  const auto beta = static_cast<float>(outer.momentum);
  const float* __restrict m = momentum.data();
  float* __restrict d = average.data();
  for (std::size_t i = 0; i < average.size(); ++i) {
    const float kept = beta * m[i];
    const float now = kept + d[i];
    const float ahead = beta * now;
    const float direction = d[i] + ahead;
    d[i] = lr * direction;
  }
}

void follow_step(const OwnerTerms& outer, std::span<const float> step, std::span<float> momentum) {
  SHOAL_CHECK(momentum.size() == step.size());
  const auto lr = static_cast<float>(outer.lr);
  const auto beta = static_cast<float>(outer.momentum);
  const float both = 1.0f + beta;
  const float* __restrict u = step.data();
  float* __restrict m = momentum.data();
  for (std::size_t i = 0; i < step.size(); ++i) {
    const float direction = u[i] / lr;
    const float kept = beta * m[i];
    const float sum = direction + kept;
    m[i] = sum / both;
  }
}

DelayedTerms delayed_terms(double share, double momentum, double renewals) {
  const double decay = std::pow(momentum, renewals);
  return {share, decay, momentum * ((1 - decay) / (1 - momentum))};
}

void delayed_nesterov_step(const OuterSpec& options, const DelayedTerms& terms,
                           std::span<const float> average, std::span<float> kept,
                           std::span<float> anchor) {
  SHOAL_CHECK(average.size() == kept.size() && average.size() == anchor.size());
  const auto lr = static_cast<float>(options.lr);
  const auto share = static_cast<float>(terms.share);
  const auto decay = static_cast<float>(terms.decay);
  const auto push = static_cast<float>(terms.push);
  const float* __restrict d = average.data();
  float* __restrict u = kept.data();
  float* __restrict theta = anchor.data();
  for (std::size_t i = 0; i < average.size(); ++i) {
    const float part = share * d[i];
    const float now = u[i] + part;
    const float ahead = push * now;
    const float direction = part + ahead;
    const float step = lr * direction;
    u[i] = decay * now;
    theta[i] = theta[i] - step;
  }
}

}  // namespace shoal::outer_opt
