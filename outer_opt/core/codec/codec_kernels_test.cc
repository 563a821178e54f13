// The AVX2 kernels against their scalar references, bit for bit, on inputs made to hurt: random
// magnitudes, ties, denormals, zeros, the largest values, what is not finite, and every length that
// leaves a tail.
#include "outer_opt/core/codec/codec_kernels.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec_traits.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kLengthMax = 256;
constexpr std::size_t kBytesMax = 4 * kLengthMax + 16;

constexpr std::size_t kUsualRun = 256;  // of one call, for formats without blocks

// The longest run of one call.
std::size_t block_of(const CodecTraits& format) {
  return format.block > 0 ? format.block : kUsualRun;
}
std::size_t size_of(const CodecTraits& format, std::size_t n) {
  return format.scale_bytes + (n * format.bits + 7) / 8;
}

bool have_fast_kernels() {
  return &fastest_kernels(CodecKind::kInt8) != &reference_kernels(CodecKind::kInt8);
}

float random_bits(Prng& prng) {
  while (true) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(prng.next()));
    if (std::isfinite(value)) return value;
  }
}

// What a kind of input puts at one place.
float draw(int kind, Prng& prng) {
  const double sign = prng.chance(0.5) ? 1 : -1;
  switch (kind) {
    case 0:
      return static_cast<float>(prng.normal());
    case 1:
      return static_cast<float>(prng.normal() * std::pow(10.0, prng.range(-6, 6)));
    case 2:
      return static_cast<float>(prng.range(-255, 255)) * 0.5f;  // ties
    case 3:
      return static_cast<float>(sign * 1e-40 * prng.unit());  // denormals
    case 4:
      return prng.chance(0.5) ? 0.0f : -0.0f;
    case 5:
      return static_cast<float>(sign) * std::numeric_limits<float>::max();
    case 6:
      return static_cast<float>(sign * std::pow(2.0, prng.range(-30, 3)));  // powers of two
    case 7:
      return static_cast<float>(sign * 1.5 * std::pow(2.0, prng.range(-9, 0)));  // between them
    case 8:
      return static_cast<float>(sign * (65504 + 64 * prng.unit()));  // the end of fp16
    default:
      return random_bits(prng);
  }
}
constexpr int kKinds = 10;

std::vector<float> input(std::size_t n, std::uint64_t seed) {
  Prng prng(seed);
  const int only = static_cast<int>(seed % (kKinds + 1));  // the last: all kinds mixed
  std::vector<float> values(n);
  for (float& v : values) {
    v = draw(only < kKinds ? only : static_cast<int>(prng.below(kKinds)), prng);
  }
  return values;
}

void expect_same_bits(const CodecTraits& format, const std::vector<float>& in, std::uint64_t seed) {
  const CodecKernels& fast = fastest_kernels(format.kind);
  const CodecKernels& slow = reference_kernels(format.kind);
  const std::size_t n = in.size();
  const std::string where = std::string(to_string(format.kind)) + ", seed " + std::to_string(seed);
  // One byte off, so that nothing is aligned by chance, and a mark behind the end.
  std::vector<std::byte> a(kBytesMax, std::byte{0x5a}), b = a;
  fast.encode(in.data(), n, a.data() + 1);
  slow.encode(in.data(), n, b.data() + 1);
  ASSERT_EQ(a, b) << where;
  ASSERT_EQ(a[1 + size_of(format, n)], std::byte{0x5a}) << where;
  std::vector<float> x(n + 1, 7), y = x;
  const bool good = slow.decode(b.data() + 1, n, y.data());
  ASSERT_EQ(fast.decode(b.data() + 1, n, x.data()), good) << where;
  if (good) {
    ASSERT_EQ(std::memcmp(x.data(), y.data(), 4 * (n + 1)), 0) << where;
  }
  x = y = input(n, seed + 1);
  double squares[8] = {1, 2, 3, 4, 5, 6, 7, 8}, expected[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_EQ(fast.accumulate(b.data() + 1, n, 0.3f, x.data(), squares), good) << where;
  ASSERT_EQ(slow.accumulate(b.data() + 1, n, 0.3f, y.data(), expected), good) << where;
  if (good) {
    ASSERT_EQ(std::memcmp(x.data(), y.data(), 4 * n), 0) << where;
    ASSERT_EQ(std::memcmp(squares, expected, sizeof squares), 0) << where;
  }
}

TEST(CodecKernels, FastOnesGiveTheBitsOfTheReference) {
  if (!have_fast_kernels()) GTEST_SKIP() << "this processor has no AVX2";
  for (const CodecKind kind : kDenseCodecs) {
    const CodecTraits& format = traits_of(kind);
    const std::size_t block = block_of(format);
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
      const std::size_t n = seed % 3 == 0 ? block : 1 + seed % block;
      expect_same_bits(format, input(n, seed), seed);
    }
  }
}

TEST(CodecKernels, WhatIsNotFiniteIsRefusedByBoth) {
  const float bad[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7f800001u),
                       std::bit_cast<float>(0xffffffffu)};
  for (const CodecKind kind : kDenseCodecs) {
    for (const std::size_t n : {block_of(traits_of(kind)), std::size_t{33}, std::size_t{1}}) {
      for (std::size_t place = 0; place < n; place += 7) {
        for (const float value : bad) {
          std::vector<float> in = input(n, 0);
          in[place] = value;
          std::vector<std::byte> bytes(kBytesMax);
          std::vector<float> out(n);
          double squares[8] = {};
          if (have_fast_kernels()) expect_same_bits(traits_of(kind), in, place);
          reference_kernels(kind).encode(in.data(), n, bytes.data());
          for (const CodecKernels* kernels : {&reference_kernels(kind), &fastest_kernels(kind)}) {
            EXPECT_FALSE(kernels->decode(bytes.data(), n, out.data()));
            EXPECT_FALSE(kernels->accumulate(bytes.data(), n, 1, out.data(), squares));
          }
        }
      }
    }
  }
}

// A frame is whatever a peer sends: any bytes decode to the same bits or are refused by both.
TEST(CodecKernels, AnyBytesDecodeAlike) {
  for (const CodecKind kind : kDenseCodecs) {
    const std::size_t block = block_of(traits_of(kind));
    for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
      Prng prng(seed);
      const std::size_t n = seed % 2 == 0 ? block : 1 + prng.below(block);
      std::vector<std::byte> bytes(kBytesMax);
      for (std::byte& b : bytes) b = static_cast<std::byte>(prng.next());
      std::vector<float> x(n), y(n);
      const bool good = reference_kernels(kind).decode(bytes.data(), n, x.data());
      ASSERT_EQ(fastest_kernels(kind).decode(bytes.data(), n, y.data()), good);
      if (!good) continue;
      ASSERT_EQ(std::memcmp(x.data(), y.data(), 4 * n), 0) << to_string(kind) << " " << seed;
      for (const float value : x)
        ASSERT_TRUE(std::isfinite(value)) << to_string(kind) << " " << seed;
    }
  }
}

}  // namespace
}  // namespace shoal::outer_opt
