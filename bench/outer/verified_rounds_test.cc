#include "bench/outer/verified_rounds.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec_traits.h"

namespace shoal::bench {
namespace {

constexpr std::size_t kMembers = 8, kValues = 8 * 1000;

// Pseudo-gradients that mostly agree.
std::vector<std::vector<float>> vectors(std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> common(kValues);
  for (float& value : common) value = static_cast<float>(prng.normal());
  std::vector<std::vector<float>> all(kMembers, common);
  for (auto& own : all) {
    for (float& value : own) value += 0.5f * static_cast<float>(prng.normal());
  }
  return all;
}

Named run(const LiarSetting& setting, std::int64_t rounds) {
  VerifiedRounds verified(setting, kMembers, 7);
  for (std::int64_t round = 1; round <= rounds; ++round) {
    const auto all = vectors(static_cast<std::uint64_t>(round));
    verified.average(round, {all.begin(), all.end()});
  }
  return verified.named();
}

TEST(VerifiedRounds, TheFalseNormIsNamedInTheFirstRoundAndTheFalseAverageWhenItIsDrawn) {
  const Named named = run({.audit = 0.2}, 20);
  EXPECT_EQ(named.norm, 1);
  EXPECT_GE(named.average, 1);
  EXPECT_EQ(named.others, 0);
}

TEST(VerifiedRounds, HonestMembersAreNotBlamedWithAnyCodec) {
  for (const CodecKind codec : outer_opt::kDenseCodecs) {
    const Named named = run({.lie = false, .audit = 1, .codec = codec}, 3);
    EXPECT_EQ(named.others, 0);
  }
}

TEST(VerifiedRounds, WhatIsFoundOutIsNotInTheAverage) {
  const auto all = vectors(1);
  VerifiedRounds honest({.lie = false, .codec = CodecKind::kFp32}, kMembers, 7);
  VerifiedRounds lied({.audit = 1, .codec = CodecKind::kFp32}, kMembers, 7);
  VerifiedRounds blind({.verify = false, .codec = CodecKind::kFp32}, kMembers, 7);
  const auto expected = honest.average(1, {all.begin(), all.end()});
  const auto distance = [&](const std::vector<float>& average) {
    double sum = 0;
    for (std::size_t i = 0; i < kValues; ++i) {
      sum += std::pow(static_cast<double>(average[i] - expected[i]), 2);
    }
    return std::sqrt(sum / static_cast<double>(kValues));
  };
  EXPECT_LT(distance(lied.average(1, {all.begin(), all.end()})), 0.2) << "two of eight are out";
  EXPECT_GT(distance(blind.average(1, {all.begin(), all.end()})), 1);
}

}  // namespace
}  // namespace shoal::bench
