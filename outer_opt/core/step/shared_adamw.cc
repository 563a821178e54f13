// See shared_adamw.h. The loops have no reduction over a changing order, so vectorizing them cannot
// change a bit.
#include "outer_opt/core/step/shared_adamw.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "base/integer_power.h"

namespace shoal::outer_opt {
SharedAdamW shared_adamw(const SharedAdamWOptions& options, bool decays) {
  SHOAL_CHECK(options.step >= 1);
  SharedAdamW step;
  step.lr = static_cast<float>(options.lr);
  step.beta1 = static_cast<float>(options.beta1);
  step.beta2 = static_cast<float>(options.beta2);
  step.eps = static_cast<float>(options.eps);
  step.decay = decays ? step.lr * static_cast<float>(options.weight_decay) : 0.0f;
  step.rate = step.lr / static_cast<float>(1 - integer_power(options.beta1, options.step));
  step.root = 1.0f / std::sqrt(static_cast<float>(1 - integer_power(options.beta2, options.step)));
  const bool clipped = options.clip > 0 && options.norm > options.clip;
  step.scale = clipped ? static_cast<float>(options.clip / options.norm) : 1.0f;
  return step;
}

void shared_adamw_step(const SharedAdamW& step, std::span<const float> gradient,
                       std::span<float> parameters, std::span<float> m, std::span<float> v) {
  SHOAL_CHECK(gradient.size() == parameters.size() && gradient.size() == m.size() &&
              gradient.size() == v.size());
  const SharedAdamW s = step;
  const float rest1 = 1.0f - s.beta1, rest2 = 1.0f - s.beta2;
  const float* __restrict d = gradient.data();
  float* __restrict theta = parameters.data();
  float* __restrict first = m.data();
  float* __restrict second = v.data();
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float g = s.scale * d[i];
    const float kept1 = s.beta1 * first[i];
    const float new1 = rest1 * g;
    first[i] = kept1 + new1;
    const float square = g * g;
    const float kept2 = s.beta2 * second[i];
    const float new2 = rest2 * square;
    second[i] = kept2 + new2;
    const float shrink = s.decay * theta[i];
    const float root = std::sqrt(second[i]) * s.root;
    const float ahead = s.rate * first[i];
    const float move = ahead / (root + s.eps);
    theta[i] = (theta[i] - shrink) - move;
  }
}

double gradient_norm(std::span<const float> gradient) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double value = gradient[i];
    sums[i % kLanes] += value * value;
  }
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return std::sqrt(sum);
}

}  // namespace shoal::outer_opt
