// Sizes, rounding, refusal of what is not finite, payloads cut anywhere, and the fast loops beside
// the reference.
#include "swarm/core/activation_codec.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::swarm {
namespace {

constexpr ActivationCodec kAll[] = {ActivationCodec::kFp32, ActivationCodec::kBf16,
                                    ActivationCodec::kInt8};

std::vector<float> normal_values(std::size_t n) {
  Prng prng(7);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(prng.normal());
  return values;
}

std::vector<std::byte> encoded(ActivationCodec codec, std::span<const float> values) {
  std::vector<std::byte> bytes(encoded_size(codec, values.size()));
  EXPECT_TRUE(encode(codec, values, bytes));
  return bytes;
}

Status decode_whole(ActivationCodec codec, std::span<const std::byte> bytes, std::span<float> out) {
  const std::span<const std::byte> pieces[] = {bytes};
  return decode(codec, pieces, out);
}

std::uint16_t bf16(float value) {
  std::uint16_t half = 0;
  EXPECT_TRUE(
      encode(ActivationCodec::kBf16, {&value, 1}, std::as_writable_bytes(std::span(&half, 1))));
  return half;
}

TEST(ActivationCodec, Sizes) {
  EXPECT_EQ(encoded_size(ActivationCodec::kFp32, 10), 40u);
  EXPECT_EQ(encoded_size(ActivationCodec::kBf16, 10), 20u);
  EXPECT_EQ(encoded_size(ActivationCodec::kInt8, 257), 257u + 8u);
}

TEST(ActivationCodec, Bf16RoundsToNearestTiesToEven) {
  const auto f = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  EXPECT_EQ(bf16(1.0f), 0x3f80);
  EXPECT_EQ(bf16(f(0x3f807fff)), 0x3f80);
  EXPECT_EQ(bf16(f(0x3f808000)), 0x3f80);  // a tie, to even
  EXPECT_EQ(bf16(f(0x3f818000)), 0x3f82);  // a tie, to even
  EXPECT_EQ(bf16(f(0xbf808001)), 0xbf81);
  EXPECT_EQ(bf16(f(0x7f7f7fff)), 0x7f7f);  // the largest that stays finite
}

TEST(ActivationCodec, RoundTripIsClose) {
  const auto values = normal_values(1000);
  for (const auto codec : kAll) {
    std::vector<float> out(values.size());
    ASSERT_TRUE(decode_whole(codec, encoded(codec, values), out).ok());
    for (std::size_t i = 0; i < values.size(); ++i) {
      double error = 5.0 / 127;  // int8: the largest value of a block is below 5
      if (codec == ActivationCodec::kFp32) error = 0;
      if (codec == ActivationCodec::kBf16) error = std::abs(values[i]) / 256;
      ASSERT_NEAR(out[i], values[i], error);
    }
  }
}

TEST(ActivationCodec, PayloadsMayBeCutAnywhere) {
  Prng prng(3);
  for (const auto codec : kAll) {
    for (const std::size_t n : {1u, 255u, 256u, 257u, 1000u}) {
      const auto values = normal_values(n);
      const auto bytes = encoded(codec, values);
      std::vector<float> whole(n), cut(n);
      ASSERT_TRUE(decode_whole(codec, bytes, whole).ok());
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::span<const std::byte>> pieces;
        for (std::size_t at = 0; at < bytes.size();) {
          const auto size =
              std::min<std::size_t>(prng.below(repeat < 25 ? 7 : 400), bytes.size() - at);
          pieces.push_back(std::span(bytes).subspan(at, size));
          at += size;
        }
        std::fill(cut.begin(), cut.end(), -1.0f);
        ASSERT_TRUE(decode(codec, pieces, cut).ok());
        ASSERT_EQ(cut, whole);
      }
    }
  }
}

TEST(ActivationCodec, WhatIsNotFiniteIsRefusedWhereverItIs) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const auto codec : kAll) {
    for (const float bad : {kInf, -kInf, std::nanf(""), std::bit_cast<float>(0x7fffffffu)}) {
      for (const std::size_t at : {0u, 15u, 16u, 299u, 308u}) {
        auto values = normal_values(309);
        values[at] = bad;
        std::vector<std::byte> bytes(encoded_size(codec, values.size()));
        EXPECT_FALSE(encode(codec, values, bytes)) << at;
      }
    }
  }
  std::vector<float> out(309);
  for (const std::size_t at : {0u, 15u, 16u, 299u, 308u}) {
    auto bytes = encoded(ActivationCodec::kBf16, normal_values(309));
    bytes[2 * at] = bytes[2 * at + 1] = std::byte{0xff};
    EXPECT_FALSE(decode_whole(ActivationCodec::kBf16, bytes, out).ok());
  }
  float large = std::numeric_limits<float>::max();  // finite, but not as bf16
  std::vector<std::byte> two(2);
  EXPECT_FALSE(encode(ActivationCodec::kBf16, {&large, 1}, two));
}

TEST(ActivationCodec, WrongSizesAreRefused) {
  for (const auto codec : kAll) {
    auto bytes = encoded(codec, normal_values(300));
    std::vector<float> out(300);
    bytes.pop_back();
    EXPECT_FALSE(decode_whole(codec, bytes, out).ok());
    bytes.resize(bytes.size() + 2);
    EXPECT_FALSE(decode_whole(codec, bytes, out).ok());
  }
}

TEST(ActivationCodec, FastBf16IsTheReference) {
  Prng prng(5);
  for (std::size_t n = 0; n < 70; ++n) {
    std::vector<float> values(n), fast_out(n), slow_out(n);
    for (float& v : values)
      v = std::bit_cast<float>(static_cast<std::uint32_t>(prng.next()) & 0xbf7fffffu);
    std::vector<std::byte> fast(2 * n), slow(2 * n);
    EXPECT_TRUE(bf16_kernels().encode(values.data(), n, fast.data()));
    EXPECT_TRUE(kBf16Reference.encode(values.data(), n, slow.data()));
    EXPECT_EQ(fast, slow);
    EXPECT_TRUE(bf16_kernels().decode(fast.data(), n, fast_out.data()));
    EXPECT_TRUE(kBf16Reference.decode(slow.data(), n, slow_out.data()));
    EXPECT_EQ(fast_out, slow_out);
  }
}

}  // namespace
}  // namespace shoal::swarm
