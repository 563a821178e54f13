// Goldens by hand, sizes, and the refusal of what is not finite.
#include "outer_opt/core/codec/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::outer_opt {
namespace {

using Bytes_ = std::vector<std::byte>;

Bytes_ encode(CodecKind kind, const std::vector<float>& in) {
  Bytes_ out(codec(kind).encoded_size(in.size()));
  codec(kind).encode(in, out);
  return out;
}

std::vector<float> decode(CodecKind kind, const Bytes_& in, std::size_t n) {
  std::vector<float> out(n);
  const Status status = codec(kind).decode(in, out);
  EXPECT_TRUE(status.ok());
  return out;
}

std::vector<float> random_values(std::size_t n, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(prng.normal() * std::pow(10.0, prng.range(-6, 6)));
  return values;
}

TEST(Int8, SmallIntegersAreExact) {
  const std::vector<float> in{127, -127, 0, 1, -64};  // scale 1
  const Bytes_ bytes = encode(CodecKind::kInt8, in);
  ASSERT_EQ(bytes.size(), 4u + 5u);
  float scale;
  std::memcpy(&scale, bytes.data(), 4);
  EXPECT_EQ(scale, 1.0f);
  EXPECT_EQ(static_cast<std::int8_t>(bytes[4]), 127);
  EXPECT_EQ(static_cast<std::int8_t>(bytes[5]), -127);
  EXPECT_EQ(static_cast<std::int8_t>(bytes[8]), -64);
  EXPECT_EQ(decode(CodecKind::kInt8, bytes, 5), in);
}

TEST(Int8, RoundsHalvesToEven) {
  const std::vector<float> in{127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f};
  EXPECT_EQ(decode(CodecKind::kInt8, encode(CodecKind::kInt8, in), 6),
            (std::vector<float>{127, 0, 2, 2, 0, -2}));
}

TEST(Int8, EachBlockHasItsScale) {
  std::vector<float> in(256 + 2, 254.0f);
  in[256] = 127.0f * 1024;
  in[257] = -1024.0f;
  const Bytes_ bytes = encode(CodecKind::kInt8, in);
  EXPECT_EQ(bytes.size(), 4u + 256u + 4u + 2u);
  EXPECT_EQ(decode(CodecKind::kInt8, bytes, in.size()), in);
}

TEST(Int8, ZerosAndDenormalsAreZero) {
  const std::vector<float> in{0.0f, -0.0f, 1e-44f, -1e-40f};
  EXPECT_EQ(encode(CodecKind::kInt8, in), Bytes_(4 + 4));
}

std::vector<int> bytes_of(const Bytes_& bytes) {
  std::vector<int> out;
  for (const std::byte b : bytes) out.push_back(std::to_integer<int>(b));
  return out;
}

TEST(Fp16, PatternsByHand) {
  // 1 = 2^0, 1.5, -2 = -2^1, 65504 the largest, 2^-24 the smallest; little-endian.
  const std::vector<float> in{1, 1.5f, -2, 65504, 0x1p-24f};
  const Bytes_ bytes = encode(CodecKind::kFp16, in);
  EXPECT_EQ(bytes_of(bytes),
            (std::vector<int>{0x00, 0x3c, 0x00, 0x3e, 0x00, 0xc0, 0xff, 0x7b, 0x01, 0x00}));
  EXPECT_EQ(decode(CodecKind::kFp16, bytes, 5), in);
}

TEST(Fp16, RoundsToEvenAndHoldsAtTheLargest) {
  // Between 2048 and 4096 only even numbers exist.
  const std::vector<float> in{2049, 2051, 65520, -1e30f, 0x1p-25f};
  EXPECT_EQ(decode(CodecKind::kFp16, encode(CodecKind::kFp16, in), 5),
            (std::vector<float>{2048, 2052, 65504, -65504, 0}));
}

TEST(Bf16, PatternsByHand) {
  const std::vector<float> in{1, -1.5f, 256, 0.0f};
  const Bytes_ bytes = encode(CodecKind::kBf16, in);
  EXPECT_EQ(bytes_of(bytes), (std::vector<int>{0x80, 0x3f, 0xc0, 0xbf, 0x80, 0x43, 0x00, 0x00}));
  EXPECT_EQ(decode(CodecKind::kBf16, bytes, 4), in);
}

TEST(Bf16, RoundsToEvenAndHoldsAtTheLargest) {
  // Between 256 and 512 only even numbers exist.
  const float max = std::numeric_limits<float>::max();
  const auto out = decode(CodecKind::kBf16, encode(CodecKind::kBf16, {257, 259, max, -max}), 4);
  EXPECT_EQ(out, (std::vector<float>{256, 260, 0x1.fep127f, -0x1.fep127f}));
}

TEST(Int4, SmallIntegersAreExact) {
  const std::vector<float> in{7, -7, 0, 1, -3};  // scale 1 = 0x3f80
  const Bytes_ bytes = encode(CodecKind::kInt4, in);
  EXPECT_EQ(bytes_of(bytes), (std::vector<int>{0x80, 0x3f, 0xf7, 0x10, 0x0b}));
  EXPECT_EQ(decode(CodecKind::kInt4, bytes, 5), in);
}

TEST(Int4, RoundsHalvesToEvenAndScalesUp) {
  EXPECT_EQ(decode(CodecKind::kInt4, encode(CodecKind::kInt4, {7, 0.5f, 1.5f, 2.5f, -0.5f}), 5),
            (std::vector<float>{7, 0, 2, 2, 0}));
  // 7 * 1.001 has no scale in bf16; the next one above 1 is 1 + 2^-7.
  EXPECT_EQ(decode(CodecKind::kInt4, encode(CodecKind::kInt4, {7.007f}), 1)[0], 7 * 1.0078125f);
}

TEST(E3m0, PowersOfTwoAreExact) {
  const std::vector<float> in{64, -32, 16, 8, -4, 2, 1, 0};  // scale 64 = 0x4280
  const Bytes_ bytes = encode(CodecKind::kE3m0, in);
  EXPECT_EQ(bytes_of(bytes), (std::vector<int>{0x80, 0x42, 0xe7, 0x45, 0x2b, 0x01}));
  EXPECT_EQ(decode(CodecKind::kE3m0, bytes, 8), in);
}

TEST(E3m0, RoundsToTheNearestPower) {
  // Half-way up from 3 * 2^k and from half of the smallest magnitude, 1.
  const std::vector<float> in{64, 48, 47, -3, 2.9f, 0.5f, 0.49f};
  EXPECT_EQ(decode(CodecKind::kE3m0, encode(CodecKind::kE3m0, in), 7),
            (std::vector<float>{64, 64, 32, -4, 2, 1, 0}));
}

TEST(Codec, SizesByHand) {
  const std::size_t values[] = {1, 127, 128, 129, 256, 1000};
  const std::map<CodecKind, std::vector<std::size_t>> sizes = {
      {CodecKind::kFp32, {4, 508, 512, 516, 1024, 4000}},
      {CodecKind::kFp16, {2, 254, 256, 258, 512, 2000}},
      {CodecKind::kBf16, {2, 254, 256, 258, 512, 2000}},
      {CodecKind::kInt8, {5, 131, 132, 133, 260, 1016}},
      {CodecKind::kInt4, {3, 66, 66, 69, 132, 516}},
      {CodecKind::kE3m0, {3, 66, 66, 69, 132, 516}}};
  for (const CodecKind kind : kDenseCodecs) {
    for (std::size_t i = 0; i < std::size(values); ++i) {
      EXPECT_EQ(codec(kind).encoded_size(values[i]), sizes.at(kind)[i]) << to_string(kind);
    }
  }
}

// Runs of kCodecRun values are encoded on their own.
TEST(Codec, RunsCanBeDecodedOneByOne) {
  for (const CodecKind kind : kDenseCodecs) {
    const std::vector<float> in = random_values(3 * kCodecRun + 5, 11);
    const Bytes_ all = encode(kind, in);
    Bytes_ joined;
    for (std::size_t i = 0; i < in.size(); i += kCodecRun) {
      const std::size_t n = std::min<std::size_t>(kCodecRun, in.size() - i);
      const Bytes_ one = encode(kind, {in.begin() + i, in.begin() + i + n});
      joined.insert(joined.end(), one.begin(), one.end());
    }
    EXPECT_EQ(all, joined) << to_string(kind);
  }
}

TEST(Codec, LargestValuesSurvive) {
  const float max = std::numeric_limits<float>::max();
  for (const CodecKind kind : kDenseCodecs) {
    if (kind == CodecKind::kFp16) continue;  // holds at 65504
    const auto out = decode(kind, encode(kind, {max, -max}), 2);
    EXPECT_TRUE(std::isfinite(out[0])) << to_string(kind);
    EXPECT_NEAR(out[0] / max, 1.0, 8e-3) << to_string(kind);
    EXPECT_EQ(out[0], -out[1]);
  }
}

// Of the largest magnitude of 256 values, which is at least that of the block.
TEST(Codec, ErrorIsWithinItsBound) {
  for (const CodecKind kind : kDenseCodecs) {
    std::vector<float> in = random_values(10'000, 3);
    for (float& v : in) v = std::clamp(v * 0.01f, -6e4f, 6e4f);
    const auto out = decode(kind, encode(kind, in), in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      float max = 0;
      const std::size_t block = i / kCodecRun * kCodecRun;
      for (std::size_t k = block; k < std::min<std::size_t>(block + kCodecRun, in.size()); ++k) {
        max = std::max(max, std::abs(in[k]));
      }
      EXPECT_LE(std::abs(in[i] - out[i]), max * codec(kind).error_bound() * 1.0001);
    }
  }
}

TEST(Codec, RefusesWhatIsNotFinite) {
  const float bad[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for (const CodecKind kind : kDenseCodecs) {
    for (const float value : bad) {
      for (const std::size_t place : {0u, 31u, 255u, 256u, 299u}) {
        std::vector<float> in(300, 1.0f);
        in[place] = value;
        std::vector<float> out(300);
        const Bytes_ bytes = encode(kind, in);
        EXPECT_EQ(codec(kind).decode(bytes, out).error().code, Code::kDataLoss);
        EXPECT_EQ(codec(kind).accumulate(bytes, 1, out).error().code, Code::kDataLoss);
      }
    }
  }
}

TEST(Codec, RefusesAWrongSize) {
  for (const CodecKind kind : kDenseCodecs) {
    std::vector<float> out(300);
    EXPECT_FALSE(codec(kind).decode(Bytes_(10), out).ok());
    EXPECT_FALSE(codec(kind).accumulate(Bytes_(10), 1, out).ok());
  }
}

TEST(Codec, AccumulatesWithAFactor) {
  for (const CodecKind kind : kDenseCodecs) {
    const float top = kind == CodecKind::kInt4 ? 7 : kind == CodecKind::kE3m0 ? 64 : 127;
    std::vector<float> sum{10, 20, 30};
    ASSERT_TRUE(codec(kind).accumulate(encode(kind, {top, -2, 4}), 0.5f, sum).ok());
    EXPECT_EQ(sum, (std::vector<float>{10 + top / 2, 19, 32})) << to_string(kind);
  }
}

TEST(Codec, EmptyRuns) {
  for (const CodecKind kind : kDenseCodecs) {
    EXPECT_EQ(encode(kind, {}).size(), 0u);
    EXPECT_TRUE(decode(kind, {}, 0).empty());
  }
}

}  // namespace
}  // namespace shoal::outer_opt
