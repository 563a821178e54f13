// Greedy at temperature 0, never outside of the top k, frequencies as the softmax says.
#include "replica/runtime/sampling.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace shoal::replica {
namespace {

TEST(Sampling, TemperatureZeroTakesTheLikeliest) {
  const std::array<float, 4> logits = {0, 3, 1, 2};
  Prng prng(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sample_token(logits, 0, 0, prng), 1);
}

TEST(Sampling, TopKKeepsTheLikeliestOnly) {
  const std::array<float, 4> logits = {0, 3, 1, 2};
  Prng prng(1);
  for (int i = 0; i < 200; ++i) {
    const auto token = sample_token(logits, 5.0, 2, prng);
    EXPECT_TRUE(token == 1 || token == 3) << token;
  }
}

TEST(Sampling, OfEquallyLikelyOnesTheFirstAreKept) {
  const std::array<float, 6> logits = {1, 2, 2, 0, 2, 2};
  Prng prng(1);
  std::array<int, 6> counts{};
  for (int i = 0; i < 200; ++i)
    ++counts[static_cast<std::size_t>(sample_token(logits, 1.0, 2, prng))];
  EXPECT_EQ(counts[1] + counts[2], 200);
  EXPECT_GT(counts[1], 50);
  EXPECT_GT(counts[2], 50);
}

TEST(Sampling, FrequenciesFollowTheSoftmax) {
  const std::array<float, 3> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  Prng prng(1);
  std::array<int, 3> counts{};
  for (int i = 0; i < 8000; ++i)
    ++counts[static_cast<std::size_t>(sample_token(logits, 1.0, 0, prng))];
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_NEAR(counts[1], 2000, 160);
  EXPECT_NEAR(counts[2], 5000, 200);
}

}  // namespace
}  // namespace shoal::replica
