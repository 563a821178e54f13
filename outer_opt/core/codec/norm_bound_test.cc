// No vector becomes longer by its encoding than norm_bound.h says, and the bounds are not idle.
#include "outer_opt/core/codec/norm_bound.h"

#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/codec_test_util.h"

namespace shoal::outer_opt {
namespace {

double norm_of(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

double decoded_squares(CodecKind kind, const std::vector<float>& values) {
  std::vector<std::byte> bytes(codec(kind).encoded_size(values.size()));
  codec(kind).encode(values, bytes);
  std::vector<float> sum(values.size());
  SquareSum squares;
  EXPECT_TRUE(codec(kind).accumulate(bytes, 1, sum, squares).ok());
  return squares.total();
}

// Relative to the bound; above 1 an honest member would be taken for a liar.
double share_of_bound(CodecKind kind, const std::vector<float>& values) {
  const double norm = norm_of(values);
  return decoded_squares(kind, values) /
         squares_at_most(kind, norm, static_cast<std::int64_t>(values.size()));
}

// Shapes of vectors, from an even one to a few large values among small ones.
std::vector<float> random_vector(Prng& prng, std::size_t n) {
  const double spread = prng.unit() * 6, scale = std::pow(10.0, prng.unit() * 16 - 12);
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) {
    values.push_back(static_cast<float>(prng.normal() * scale * std::exp(spread * prng.normal())));
  }
  return values;
}

TEST(NormBound, NoHonestVectorIsBeyondItWhateverItsCodecAndSize) {
  Prng prng(1);
  for (const CodecKind kind : kDenseCodecs) {
    for (int i = 0; i < 400; ++i) {
      const std::size_t n = i % 4 == 0 ? 1 + prng.below(9) : 1 + prng.below(5000);
      EXPECT_LE(share_of_bound(kind, random_vector(prng, n)), 1) << to_string(kind) << ", " << i;
    }
  }
}

// One value of 1 and others just where they are rounded up: the worst that a block can hold.
TEST(NormBound, TheWorstBlockIsWithinIt) {
  for (const CodecKind kind : kDenseCodecs) {
    double worst = 0;
    for (int step = 1; step <= 4000; ++step) {
      std::vector<float> values(256, static_cast<float>(step) / 4000);
      values[0] = values[128] = 1;
      worst = std::max(worst, share_of_bound(kind, values));
    }
    EXPECT_LE(worst, 1) << to_string(kind);
    if (!traits_of(kind).is_coarse()) continue;
    EXPECT_GT(worst, 0.95) << to_string(kind) << ": the bound could be lower";
  }
}

TEST(NormBound, TenTimesAsMuchIsBeyondItWithEveryCodec) {
  for (const CodecKind kind : kDenseCodecs) {
    std::vector<float> values = example_values();
    const double norm = norm_of(values);
    for (float& value : values) value *= -10;
    EXPECT_GT(decoded_squares(kind, values), squares_at_most(kind, norm, kExampleValues))
        << to_string(kind);
  }
}

}  // namespace
}  // namespace shoal::outer_opt
