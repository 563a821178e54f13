// Rows of traits, sizes by hand, bounds, and the refusal of values that are not finite.
#include "outer_opt/core/codec/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec_test_util.h"

namespace shoal::outer_opt {
namespace {

std::vector<float> random_values(std::size_t n, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(prng.normal() * std::pow(10.0, prng.range(-6, 6)));
  return values;
}

TEST(CodecTraits, WireNumbersByHand) {
  const std::map<CodecKind, int> numbers = {
      {CodecKind::kFp32, 0}, {CodecKind::kInt8, 1}, {CodecKind::kFp16, 2}, {CodecKind::kBf16, 3},
      {CodecKind::kInt4, 4}, {CodecKind::kE3m0, 5}, {CodecKind::kE5m2, 7}, {CodecKind::kSparse2, 6},
  };
  EXPECT_EQ(numbers.size(), kCodecs.size());
  for (const CodecTraits& traits : kCodecs) {
    EXPECT_EQ(traits.wire, numbers.at(traits.kind)) << to_string(traits.kind);
    EXPECT_EQ(codec_of_wire(traits.wire), traits.kind);
  }
  EXPECT_FALSE(codec_of_wire(8));
  EXPECT_FALSE(codec_of_wire(256));
}

TEST(CodecTraits, DenseCodecsAreTheRowsWithKernels) {
  for (const CodecTraits& traits : kCodecs) {
    const bool dense = std::ranges::count(kDenseCodecs, traits.kind) == 1;
    EXPECT_EQ(traits.is_dense(), dense) << to_string(traits.kind);
    EXPECT_EQ(traits.is_dense(), traits.kind != CodecKind::kSparse2);
  }
}

TEST(Codec, SizesByHand) {
  const std::size_t values[] = {1, 127, 128, 129, 256, 1000};
  const std::map<CodecKind, std::vector<std::size_t>> sizes = {
      {CodecKind::kFp32, {4, 508, 512, 516, 1024, 4000}},
      {CodecKind::kFp16, {2, 254, 256, 258, 512, 2000}},
      {CodecKind::kBf16, {2, 254, 256, 258, 512, 2000}},
      {CodecKind::kInt8, {5, 131, 132, 133, 260, 1016}},
      {CodecKind::kInt4, {3, 66, 66, 69, 132, 516}},
      {CodecKind::kE3m0, {3, 66, 66, 69, 132, 516}},
      {CodecKind::kE5m2, {5, 131, 132, 133, 260, 1016}}};
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
    const Encoded all = encode(kind, in);
    Encoded joined;
    for (std::size_t i = 0; i < in.size(); i += kCodecRun) {
      const std::size_t n = std::min<std::size_t>(kCodecRun, in.size() - i);
      const Encoded one = encode(kind, {in.begin() + i, in.begin() + i + n});
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

// The bound is relative to the largest magnitude of 256 values, which is at least that of the
// block.
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
        const Encoded bytes = encode(kind, in);
        EXPECT_EQ(codec(kind).decode(bytes, out).error().code, Code::kDataLoss);
        EXPECT_EQ(codec(kind).accumulate(bytes, 1, out).error().code, Code::kDataLoss);
      }
    }
  }
}

TEST(Codec, RefusesAWrongSize) {
  for (const CodecKind kind : kDenseCodecs) {
    std::vector<float> out(300);
    EXPECT_FALSE(codec(kind).decode(Encoded(10), out).ok());
    EXPECT_FALSE(codec(kind).accumulate(Encoded(10), 1, out).ok());
  }
}

TEST(Codec, AccumulatesWithAFactor) {
  for (const CodecKind kind : kDenseCodecs) {
    const float top = exact_top(kind);
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
