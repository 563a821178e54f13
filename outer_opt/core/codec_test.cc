// Goldens by hand, sizes, and the refusal of what is not finite.
#include "outer_opt/core/codec.h"

#include <cmath>
#include <cstring>
#include <limits>
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
  std::vector<float> in(kInt8Block + 2, 254.0f);
  in[kInt8Block] = 127.0f * 1024;
  in[kInt8Block + 1] = -1024.0f;
  const Bytes_ bytes = encode(CodecKind::kInt8, in);
  EXPECT_EQ(bytes.size(), 4u + 256u + 4u + 2u);
  EXPECT_EQ(decode(CodecKind::kInt8, bytes, in.size()), in);
}

TEST(Int8, ZerosAndDenormalsAreZero) {
  const std::vector<float> in{0.0f, -0.0f, 1e-44f, -1e-40f};
  EXPECT_EQ(encode(CodecKind::kInt8, in), Bytes_(4 + 4));
}

TEST(Int8, LargestValuesSurvive) {
  const float max = std::numeric_limits<float>::max();
  const auto out = decode(CodecKind::kInt8, encode(CodecKind::kInt8, {max, -max}), 2);
  EXPECT_TRUE(std::isfinite(out[0]));
  EXPECT_NEAR(out[0] / max, 1.0, 1e-6);
}

TEST(Int8, ErrorIsAtMostHalfAStep) {
  const std::vector<float> in = random_values(10'000, 3);
  const auto out = decode(CodecKind::kInt8, encode(CodecKind::kInt8, in), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    float max = 0;
    const std::size_t block = i / kInt8Block * kInt8Block;
    for (std::size_t k = block; k < std::min<std::size_t>(block + kInt8Block, in.size()); ++k) {
      max = std::max(max, std::abs(in[k]));
    }
    EXPECT_LE(std::abs(in[i] - out[i]), max / 127 * 0.5001f);
  }
}

TEST(Codec, RefusesWhatIsNotFinite) {
  const float bad[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for (const CodecKind kind : {CodecKind::kFp32, CodecKind::kInt8}) {
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
  for (const CodecKind kind : {CodecKind::kFp32, CodecKind::kInt8}) {
    std::vector<float> out(300);
    EXPECT_FALSE(codec(kind).decode(Bytes_(10), out).ok());
    EXPECT_FALSE(codec(kind).accumulate(Bytes_(10), 1, out).ok());
  }
}

TEST(Codec, AccumulatesWithAFactor) {
  for (const CodecKind kind : {CodecKind::kFp32, CodecKind::kInt8}) {
    std::vector<float> sum{10, 20, 30};
    ASSERT_TRUE(codec(kind).accumulate(encode(kind, {127, -2, 4}), 0.5f, sum).ok());
    EXPECT_EQ(sum, (std::vector<float>{73.5, 19, 32}));
  }
}

TEST(Codec, EmptyRuns) {
  for (const CodecKind kind : {CodecKind::kFp32, CodecKind::kInt8}) {
    EXPECT_EQ(encode(kind, {}).size(), 0u);
    EXPECT_TRUE(decode(kind, {}, 0).empty());
  }
}

}  // namespace
}  // namespace shoal::outer_opt
