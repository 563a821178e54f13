// Goldens of the outer step that a person can check with a pocket calculator.
#include "outer_opt/core/step/nesterov.h"

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
    delayed_nesterov_step(options, delayed_terms(1, options.momentum, 1), average, kept, other);
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
    const int refresh = arrival % kReplicas == 0 ? 1 : 0;
    buffer += delta;
    double direction = delta / kReplicas;
    if (refresh == 1) {
      momentum = options.momentum * momentum + buffer / kReplicas;
      direction += options.momentum * momentum;
      buffer = 0;
    }
    theta -= options.lr * direction;
    const std::vector<float> average{static_cast<float>(delta)};
    delayed_nesterov_step(options, delayed_terms(1.0 / kReplicas, options.momentum, refresh),
                          average, kept, anchor);
    ASSERT_NEAR(anchor[0], theta, 1e-5) << arrival;
  }
}

// However the rounds are cut, one pseudo-gradient moves theta by lr / (1 - momentum) in the end.
TEST(DelayedNesterov, EveryPseudoGradientIsPushedTheSame) {
  const OuterSpec options{0.7, 0.8};
  for (const double renewals : {0.25, 1.0, 2.5}) {
    std::vector<float> kept{0}, anchor{0};
    const DelayedTerms terms = delayed_terms(0.5, options.momentum, renewals);
    delayed_nesterov_step(options, terms, std::vector<float>{2}, kept, anchor);
    for (int round = 0; round < 400; ++round) {
      delayed_nesterov_step(options, terms, std::vector<float>{0}, kept, anchor);
    }
    EXPECT_NEAR(anchor[0], -0.7 / 0.2, 1e-4) << renewals;
  }
}

// Two halves of a renewal keep what a whole one does.
TEST(DelayedNesterov, RenewalsAddUp) {
  const DelayedTerms half = delayed_terms(1, 0.9, 0.5), one = delayed_terms(1, 0.9, 1);
  EXPECT_NEAR(half.decay * half.decay, one.decay, 1e-15);
  EXPECT_NEAR(half.push + half.decay * half.push, one.push, 1e-15);
}

// Powers of two: exact.
TEST(DelayedNesterov, ExactSmallNumbers) {
  const std::vector<float> average{8, -16};
  std::vector<float> kept{2, 0}, anchor{100, 100};
  delayed_nesterov_step({0.5, 0.5}, delayed_terms(0.25, 0.5, 0), average, kept, anchor);
  EXPECT_EQ(kept, (std::vector<float>{4, -4}));
  EXPECT_EQ(anchor, (std::vector<float>{99, 102}));
  delayed_nesterov_step({0.5, 0.5}, delayed_terms(0.25, 0.5, 1), average, kept, anchor);
  EXPECT_EQ(kept, (std::vector<float>{3, -4}));
  EXPECT_EQ(anchor, (std::vector<float>{96.5, 106}));
}

}  // namespace
}  // namespace shoal::outer_opt
