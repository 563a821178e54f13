// Goldens of the outer step that a person can check with a pocket calculator.
#include "outer_opt/core/nesterov.h"

#include <vector>

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

TEST(Nesterov, ConstantPseudoGradientOfOne) {
  const OuterSpec options{0.7, 0.9};
  const std::vector<float> average(9, 1.0f);
  std::vector<float> momentum(9, 0.0f), anchor(9, 0.0f);
  for (const double step : {1.33, 1.897, 2.4073, 2.86657}) {
    const std::vector<float> before = anchor;
    nesterov_step(options, average, momentum, anchor);
    for (std::size_t i = 0; i < anchor.size(); ++i) {
      EXPECT_NEAR(before[i] - anchor[i], step, 1e-6);
      EXPECT_EQ(anchor[i], anchor[0]);
    }
  }
}

TEST(Nesterov, ApproachesTheSteadyGain) {
  const std::vector<float> average{1.0f};
  std::vector<float> momentum{0.0f}, anchor{0.0f};
  float step = 0;
  for (int i = 0; i < 200; ++i) {
    const float before = anchor[0];
    nesterov_step({0.7, 0.9}, average, momentum, anchor);
    step = before - anchor[0];
  }
  EXPECT_NEAR(step, 7.0, 1e-3);
}

// lr and momentum are powers of two, so every result is exact.
TEST(Nesterov, ExactSmallNumbers) {
  const std::vector<float> average{4, -8, 0};
  std::vector<float> momentum{2, 0, 16}, anchor{100, 100, 100};
  nesterov_step({0.5, 0.5}, average, momentum, anchor);
  EXPECT_EQ(momentum, (std::vector<float>{5, -8, 8}));
  EXPECT_EQ(anchor, (std::vector<float>{96.75, 106, 98}));
}

TEST(Nesterov, WithoutMomentumIsPlainDescent) {
  const std::vector<float> average{2};
  std::vector<float> momentum{0}, anchor{10};
  nesterov_step({1.0, 0.0}, average, momentum, anchor);
  EXPECT_EQ(anchor[0], 8.0f);
}

}  // namespace
}  // namespace shoal::outer_opt
