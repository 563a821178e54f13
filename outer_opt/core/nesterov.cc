// The outer step as one pass over memory. Each statement is one rounding; the build forbids
// contraction (cmake/Toolchain.cmake), and the loop has no reduction, so vectorising it cannot
// change a bit.
#include "outer_opt/core/nesterov.h"

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

void delayed_nesterov_step(const OuterSpec& options, const DelayedTerms& terms,
                           std::span<const float> average, std::span<float> kept,
                           std::span<float> anchor) {
  SHOAL_CHECK(average.size() == kept.size() && average.size() == anchor.size());
  const auto lr = static_cast<float>(options.lr);
  const auto share = static_cast<float>(terms.share);
  // Without a renewal nothing is pushed and all is kept.
  const auto push = terms.refresh ? static_cast<float>(options.momentum) : 0.0f;
  const float* __restrict d = average.data();
  float* __restrict u = kept.data();
  float* __restrict theta = anchor.data();
  for (std::size_t i = 0; i < average.size(); ++i) {
    const float part = share * d[i];
    const float now = u[i] + part;
    const float ahead = push * now;
    const float direction = part + ahead;
    const float step = lr * direction;
    u[i] = terms.refresh ? ahead : now;
    theta[i] = theta[i] - step;
  }
}

}  // namespace shoal::outer_opt
