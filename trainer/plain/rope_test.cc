// Frequencies against the formulas by hand.
#include "trainer/plain/rope.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace shoal::trainer {
namespace {

TEST(Rope, FrequenciesFallFromOneByPowersOfTheta) {
  const auto plain = rope_frequencies({.theta = 10'000}, 4);
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_DOUBLE_EQ(plain[0], 1);
  EXPECT_DOUBLE_EQ(plain[1], 0.01);
  EXPECT_DOUBLE_EQ(rope_frequencies({.theta = 1e6}, 4)[1], 1e-3);
}

TEST(Rope, LinearDividesAll) {
  const auto scaled = rope_frequencies({.scaling = RopeScaling::kLinear, .factor = 4}, 4);
  EXPECT_DOUBLE_EQ(scaled[0], 0.25);
  EXPECT_DOUBLE_EQ(scaled[1], 0.0025);
}

// theta = 16 and a head of 8: frequencies 1, 1/2, 1/4, 1/8. The old context of 8 pi holds 4, 2, 1
// and 1/2 waves.
TEST(Rope, Llama3KeepsShortWavesDividesLongOnesAndBlendsBetween) {
  const RopeSpec rope{.theta = 16,
                      .scaling = RopeScaling::kLlama3,
                      .factor = 8,
                      .low_freq_factor = 1,
                      .high_freq_factor = 4,
                      .original_context = 25};
  const auto scaled = rope_frequencies(rope, 8);
  const double waves = 25 / (2 * std::numbers::pi);
  const auto blended = [&](double frequency) {
    const double kept = (waves * frequency - 1) / 3;
    return (1 - kept) * frequency / 8 + kept * frequency;
  };
  EXPECT_NEAR(scaled[0], blended(1), 1e-12);
  EXPECT_NEAR(scaled[1], blended(0.5), 1e-12);
  EXPECT_DOUBLE_EQ(scaled[2], 0.25 / 8);
  EXPECT_DOUBLE_EQ(scaled[3], 0.125 / 8);
  RopeSpec shorter = rope;
  shorter.high_freq_factor = 2;
  EXPECT_DOUBLE_EQ(rope_frequencies(shorter, 8)[0], 1);
}

}  // namespace
}  // namespace shoal::trainer
