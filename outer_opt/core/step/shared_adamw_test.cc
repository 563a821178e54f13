// Two steps that a person can calculate, the clip, and the bits of an odd length.
#include "outer_opt/core/step/shared_adamw.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

SharedAdamWOptions options(std::int64_t step) {
  SharedAdamWOptions o;
  o.lr = 0.5, o.weight_decay = 0.1, o.beta1 = 0.9, o.beta2 = 0.99, o.eps = 1e-8;
  o.step = step;
  return o;
}

TEST(SharedAdamW, FirstStepsByHand) {
  std::vector<float> theta{1}, m{0}, v{0}, free{1}, free_m{0}, free_v{0};
  // Step 1, g = 2: m = 0.2, v = 0.04; corrected 2 and 4; the step is lr * 2 / 2 = lr.
  const std::vector<float> two{2}, minus{-1};
  shared_adamw_step(shared_adamw(options(1), true), two, theta, m, v);
  shared_adamw_step(shared_adamw(options(1), false), two, free, free_m, free_v);
  EXPECT_NEAR(theta[0], 1.0 - 0.5 * 0.1 - 0.5, 1e-6);
  EXPECT_NEAR(free[0], 1.0 - 0.5, 1e-6);
  EXPECT_NEAR(m[0], 0.2, 1e-7);
  EXPECT_NEAR(v[0], 0.04, 1e-7);
  // Step 2, g = -1: m = 0.08, v = 0.0496; corrected by 0.19 and 0.0199.
  shared_adamw_step(shared_adamw(options(2), false), minus, free, free_m, free_v);
  const double move = 0.5 * (0.08 / 0.19) / (std::sqrt(0.0496 / 0.0199) + 1e-8);
  EXPECT_NEAR(free[0], 0.5 - move, 1e-6);
}

// g = 2 as above, with an eps that counts: the step is lr * 2 / (2 + 0.5). Decay is of the
// parameter.
TEST(SharedAdamW, EpsAndDecayCount) {
  SharedAdamWOptions o = options(1);
  o.eps = 0.5;
  std::vector<float> theta{8}, m{0}, v{0};
  shared_adamw_step(shared_adamw(o, true), std::vector<float>{2}, theta, m, v);
  EXPECT_NEAR(theta[0], 8.0 - 0.5 * 0.1 * 8 - 0.5 * 2 / 2.5, 1e-5);
}

TEST(SharedAdamW, BiasIsCorrectedByTheStep) {
  for (std::int64_t step = 1; step <= 40; ++step) {
    const SharedAdamW made = shared_adamw(options(step), true);
    const auto n = static_cast<double>(step);
    EXPECT_NEAR(made.rate, 0.5 / (1 - std::pow(0.9, n)), 1e-5) << step;
    EXPECT_NEAR(made.root, 1 / std::sqrt(1 - std::pow(0.99, n)), 1e-5) << step;
  }
}

TEST(SharedAdamW, ANormAboveTheClipIsScaledToIt) {
  SharedAdamWOptions o = options(1);
  const std::vector<float> gradient{3, 4};
  o.norm = gradient_norm(gradient);
  EXPECT_DOUBLE_EQ(o.norm, 5);
  EXPECT_EQ(shared_adamw(o, true).scale, 1.0f);  // off
  o.clip = 2.5;
  EXPECT_EQ(shared_adamw(o, true).scale, 0.5f);
  o.clip = 10;
  EXPECT_EQ(shared_adamw(o, true).scale, 1.0f);
}

TEST(SharedAdamW, TheNormOfWhatIsNotFiniteIsNotFinite) {
  const std::vector<float> bad{1, std::numeric_limits<float>::infinity(), 1};
  EXPECT_FALSE(std::isfinite(gradient_norm(bad)));
}

// A range may be cut anywhere: the bits do not depend on how many values one call gets.
TEST(SharedAdamW, OneCallOrManyGiveTheSameBits) {
  constexpr std::size_t kCount = 1003;
  std::vector<float> gradient(kCount), theta(kCount), m(kCount), v(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    gradient[i] = std::sin(static_cast<float>(i));
    theta[i] = std::cos(static_cast<float>(i));
    m[i] = gradient[i] / 3;
    v[i] = m[i] * m[i];
  }
  auto theta2 = theta, m2 = m, v2 = v;
  const SharedAdamW step = shared_adamw(options(7), true);
  shared_adamw_step(step, gradient, theta, m, v);
  for (std::size_t i = 0; i < kCount; ++i) {
    shared_adamw_step(step, std::span(gradient).subspan(i, 1), std::span(theta2).subspan(i, 1),
                      std::span(m2).subspan(i, 1), std::span(v2).subspan(i, 1));
  }
  EXPECT_EQ(theta, theta2);
  EXPECT_EQ(m, m2);
  EXPECT_EQ(v, v2);
}

}  // namespace
}  // namespace shoal::outer_opt
