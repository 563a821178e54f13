// Each outer optimizer on numbers that a person can follow, and what holds for all of them.
#include "outer_opt/core/step/outer_optimizer.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kValues = 1000;

OuterSpec spec_of(OuterMethod method) {
  OuterSpec spec{0.5, 0.5};
  spec.method = method;
  return spec;
}

std::vector<float> drawn(std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(kValues);
  for (float& value : values) value = static_cast<float>(prng.normal());
  return values;
}

// One value, which a test steps on.
struct OneValue {
  OneValue(const OuterSpec& spec, std::int64_t fragments = 1)
      : optimizer(make_outer_optimizer(spec, fragments)),
        state(zero_vectors(optimizer->vectors(), 1)) {}
  void step(RoundNumber round, float average, double lr) {
    const std::vector<float> averages{average};
    optimizer->step({.round = round, .outer_lr = lr}, averages, RunsOf(state, {0, 1}), anchor);
  }
  std::unique_ptr<OuterOptimizer> optimizer;
  NamedVectors state;
  std::vector<float> anchor{8};
};

TEST(OuterOptimizer, NamesTheVectorsOfItsMethod) {
  for (const OuterTraits& traits : kOuterTraits) {
    const auto optimizer = make_outer_optimizer(spec_of(traits.method), 1);
    EXPECT_EQ(optimizer->spec().method, traits.method);
    EXPECT_TRUE(std::ranges::equal(optimizer->vectors(), traits.vectors));
  }
}

// A joiner steps in its own runs, and must come to the same bits.
TEST(OuterOptimizer, StepsOfRunsHaveTheBitsOfWholeSteps) {
  for (const OuterTraits& traits : kOuterTraits) {
    const auto optimizer = make_outer_optimizer(spec_of(traits.method), 1);
    NamedVectors whole = zero_vectors(traits.vectors, kValues), runs = whole;
    std::vector<float> anchor = drawn(1), joined = anchor;
    for (RoundNumber round = 1; round <= 4; ++round) {
      const std::vector<float> average = drawn(10 + static_cast<std::uint64_t>(round));
      const StepTerms terms{.round = round, .outer_lr = traits.lr};
      optimizer->step(terms, average, RunsOf(whole, {0, kValues}), anchor);
      for (const ValueRange& run : {ValueRange{300, 700}, ValueRange{0, 300}}) {
        const auto first = static_cast<std::size_t>(run.first);
        const auto count = static_cast<std::size_t>(run.count);
        optimizer->step(terms, std::span(average).subspan(first, count), RunsOf(runs, run),
                        std::span(joined).subspan(first, count));
      }
    }
    EXPECT_EQ(joined, anchor) << to_string(traits.method);
    EXPECT_EQ(runs, whole) << to_string(traits.method);
    EXPECT_NE(joined, drawn(1));
  }
}

// What a kernel would compute is only true of the rule that it is named after.
TEST(OuterOptimizer, OnlyNesterovHasAKernel) {
  for (const OuterTraits& traits : kOuterTraits) {
    const bool nesterov = traits.method == OuterMethod::kNesterov;
    EXPECT_EQ(make_outer_optimizer(spec_of(traits.method), 1)->kernel(),
              nesterov ? OuterKernel::kNesterov : OuterKernel::kNone);
  }
}

TEST(OuterOptimizer, NesterovTakesTheStepOfItsFunction) {
  OneValue one(spec_of(OuterMethod::kNesterov));
  one.step(1, 2, 0.5);
  one.step(2, 1, 0.5);
  std::vector<float> momentum{0}, anchor{8};
  nesterov_step({0.5, 0.5}, std::vector<float>{2}, momentum, anchor);
  nesterov_step({0.5, 0.5}, std::vector<float>{1}, momentum, anchor);
  EXPECT_EQ(one.anchor, anchor);
  EXPECT_EQ(one.state[0].values, momentum);
}

// m = 2, 2, 2; the anchor goes by lr * m.
TEST(OuterOptimizer, SgdTakesHeavyBallSteps) {
  OneValue one(spec_of(OuterMethod::kSgd));
  one.step(1, 2, 0.5);
  EXPECT_EQ(one.state[0].values[0], 2);
  EXPECT_EQ(one.anchor[0], 7);
  one.step(2, 1, 0.5);
  EXPECT_EQ(one.state[0].values[0], 2);
  EXPECT_EQ(one.anchor[0], 6);
  one.step(3, 1, 0.25);
  EXPECT_EQ(one.state[0].values[0], 2);
  EXPECT_EQ(one.anchor[0], 5.5f);
}

TEST(OuterOptimizer, SgdWithoutMomentumIsPlain) {
  OuterSpec spec{0.5, 0};
  spec.method = OuterMethod::kSgd;
  OneValue one(spec);
  for (RoundNumber round = 1; round <= 3; ++round) one.step(round, 2, 0.5);
  EXPECT_EQ(one.anchor[0], 5);
}

OuterSpec adam(double beta1, double beta2, double eps) {
  OuterSpec spec;
  spec.method = OuterMethod::kAdam;
  spec.beta1 = beta1, spec.beta2 = beta2, spec.eps = eps;
  return spec;
}

// m = 0.5 * 2 and v = 0.25 * 4 are corrected to 2 and 4: without eps the first step is lr.
TEST(OuterOptimizer, AdamsFirstStepIsTheLearningRate) {
  OneValue one(adam(0.5, 0.75, 0));
  one.step(1, 2, 0.5);
  EXPECT_EQ(one.state[0].values[0], 1);
  EXPECT_EQ(one.state[1].values[0], 1);
  EXPECT_EQ(one.anchor[0], 7.5f);
}

// Equal averages have equal corrected moments, so all steps are alike.
TEST(OuterOptimizer, AdamTakesEqualStepsForEqualAverages) {
  OneValue one(adam(0.9, 0.99, 1));
  for (RoundNumber round = 1; round <= 8; ++round) one.step(round, 3, 0.5);
  EXPECT_NEAR(one.anchor[0], 8 - 8 * 0.5 * 3 / (3 + 1), 1e-5);
}

// Three steps in double, from the definition.
TEST(OuterOptimizer, AdamIsThatOfThePaperWithBiasCorrection) {
  const OuterSpec spec = adam(0.9, 0.99, 1e-3);
  OneValue one(spec);
  double m = 0, v = 0, theta = 8;
  const float averages[] = {0.02f, -0.005f, 0.01f};
  for (int t = 1; t <= 3; ++t) {
    const double d = averages[t - 1];
    one.step(t, averages[t - 1], 0.01);
    m = 0.9 * m + 0.1 * d;
    v = 0.99 * v + 0.01 * d * d;
    theta -= 0.01 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.99, t))) + 1e-3);
    EXPECT_NEAR(one.state[0].values[0], m, 1e-8);
    EXPECT_NEAR(one.state[1].values[0], v, 1e-10);
    EXPECT_NEAR(one.anchor[0], theta, 2e-6);
  }
}

// With four fragments a fragment has its second step in one of the rounds 5 to 8.
TEST(OuterOptimizer, AdamCountsTheStepsOfAFragment) {
  OneValue whole(adam(0.5, 0.75, 1)), fragment(adam(0.5, 0.75, 1), 4);
  whole.step(1, 2, 0.5);
  fragment.step(3, 2, 0.5);
  EXPECT_EQ(fragment.anchor, whole.anchor);
  whole.step(2, 1, 0.5);
  fragment.step(7, 1, 0.5);
  EXPECT_EQ(fragment.anchor, whole.anchor);
}

}  // namespace
}  // namespace shoal::outer_opt
