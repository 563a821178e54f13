// The small model against finite differences, and the ways to train it against each other.
#include "bench/outer/small_training.h"

#include <cmath>

#include <gtest/gtest.h>

namespace shoal::bench {
namespace {

// Two words that take turns: what comes next follows from the last symbols.
std::vector<std::uint8_t> two_words() {
  std::vector<std::uint8_t> text;
  for (int i = 0; i < 4000; ++i) text.push_back(static_cast<std::uint8_t>(i % 7 * (i / 7 % 2 + 1)));
  return text;
}

TEST(SmallModel, ItsGradientIsThatOfItsLoss) {
  SmallModel model(two_words());
  const std::vector<float> at = SmallModel::initial(1);
  Prng prng(2);
  const Places places = model.draw(prng);
  std::vector<float> gradient(at.size());
  model.loss(at, places, gradient);
  double wanted = 0, along = 0;
  std::vector<float> up = at, down = at;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto step = static_cast<float>(prng.chance(0.5) ? 1e-3 : -1e-3);
    up[i] += step, down[i] -= step;
    wanted += static_cast<double>(gradient[i]) * 2 * static_cast<double>(step);
  }
  along = model.loss(up, places, {}) - model.loss(down, places, {});
  EXPECT_NEAR(along, wanted, 0.02 * std::fabs(wanted) + 1e-5);
}

class SmallTrainings : public testing::Test {
 protected:
  double loss(const SmallArm& arm, std::int64_t rounds = 12) {
    return train_small(model_, arm, {rounds, 10, 4}, 8e-3, 1);
  }
  SmallModel model_{two_words()};
};

TEST_F(SmallTrainings, EveryArmLearnsAndCanBeRepeated) {
  const OuterSpec outer{0.7, 0.7};
  for (const SmallArm& arm :
       {SmallArm{"ddp", Averaging::kGradients}, SmallArm{"diloco", Averaging::kDiloco, outer},
        SmallArm{"lost", Averaging::kDiloco, outer, 0.5, Lost::kStartsOver},
        SmallArm{"kept", Averaging::kDiloco, outer, 0.5, Lost::kKeepsOwn},
        SmallArm{"async", Averaging::kAsync, outer, 0.5, Lost::kMovesWithAnchor}}) {
    EXPECT_LT(loss(arm), 1.5) << arm.name;  // log(80) = 4.4
    EXPECT_EQ(loss(arm), loss(arm)) << arm.name;
  }
}

// All shares at once: delayed Nesterov is Nesterov.
TEST_F(SmallTrainings, AsyncWithoutALossIsDiloco) {
  const SmallArm diloco{"diloco", Averaging::kDiloco, {0.7, 0.7}};
  SmallArm async = diloco;
  async.averaging = Averaging::kAsync;
  EXPECT_EQ(loss(async), loss(diloco));
}

// With an outer lr of 1 and no momentum the anchor is the mean of the workers.
TEST_F(SmallTrainings, WhatIsLostIsMissed) {
  const SmallArm all{"all", Averaging::kDiloco, {1, 0}};
  SmallArm half = all;
  half.dropped = 0.5;
  EXPECT_NE(loss(half), loss(all));
}

}  // namespace
}  // namespace shoal::bench
