// Goldens of the outer step that a person can check with a pocket calculator.
#include "outer_opt/core/nesterov.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

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

// ---- delayed

TEST(DelayedNesterov, WithAllSharesAtOnceItIsNesterovBitForBit) {
  const OuterSpec options{0.7, 0.9};
  std::vector<float> average(64), momentum(64, 0.0f), kept(64, 0.0f), anchor(64, 1.0f);
  std::vector<float> other = anchor;
  std::uint64_t state = 7;
  for (int round = 0; round < 50; ++round) {
    for (float& value : average) {
      value = static_cast<float>(static_cast<double>(split_mix(state)) * 0x1p-64 - 0.4);
    }
    nesterov_step(options, average, momentum, anchor);
    delayed_nesterov_step(options, {1, true}, average, kept, other);
    ASSERT_EQ(anchor, other) << round;
  }
}

// Algorithm 3 of the paper with c = 0, in double: one arrival of four at a time.
TEST(DelayedNesterov, IsTheAlgorithmOfThePaper) {
  constexpr int kReplicas = 4;
  const OuterSpec options{0.7, 0.9};
  std::vector<float> kept{0.0f}, anchor{1.0f};
  double momentum = 0, buffer = 0, theta = 1;
  std::uint64_t state = 3;
  for (int arrival = 1; arrival <= 10 * kReplicas; ++arrival) {
    const double delta = static_cast<double>(split_mix(state)) * 0x1p-64 - 0.4;
    const bool refresh = arrival % kReplicas == 0;
    buffer += delta;
    double direction = delta / kReplicas;
    if (refresh) {
      momentum = options.momentum * momentum + buffer / kReplicas;
      direction += options.momentum * momentum;
      buffer = 0;
    }
    theta -= options.lr * direction;
    const std::vector<float> average{static_cast<float>(delta)};
    delayed_nesterov_step(options, {1.0 / kReplicas, refresh}, average, kept, anchor);
    ASSERT_NEAR(anchor[0], theta, 1e-5) << arrival;
  }
}

// Powers of two: exact.
TEST(DelayedNesterov, ExactSmallNumbers) {
  const std::vector<float> average{8, -16};
  std::vector<float> kept{2, 0}, anchor{100, 100};
  delayed_nesterov_step({0.5, 0.5}, {0.25, false}, average, kept, anchor);
  EXPECT_EQ(kept, (std::vector<float>{4, -4}));
  EXPECT_EQ(anchor, (std::vector<float>{99, 102}));
  delayed_nesterov_step({0.5, 0.5}, {0.25, true}, average, kept, anchor);
  EXPECT_EQ(kept, (std::vector<float>{3, -4}));
  EXPECT_EQ(anchor, (std::vector<float>{96.5, 106}));
}

}  // namespace
}  // namespace shoal::outer_opt
