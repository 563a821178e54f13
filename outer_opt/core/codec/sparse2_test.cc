// Encodings and means by hand, the choice of the largest against a plain sort, what an encoding may
// cost, damaged bytes, and when the residual changes.
#include "outer_opt/core/codec/sparse2.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::outer_opt {
namespace {

std::vector<std::byte> encode(const std::vector<float>& in) {
  std::vector<std::byte> out(sparse2_size(in.size()), std::byte{0xff});
  sparse2_encode(in, out);
  return out;
}

std::vector<float> decode(const std::vector<std::byte>& in, std::size_t n) {
  std::vector<float> out(n, NAN);
  const Status status = sparse2_decode(in, out);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return out;
}

std::vector<float> normal_values(std::size_t n, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(prng.normal());
  return values;
}

TEST(Sparse2, BytesByHand) {
  // The mean is 1.17; 2 is above it, 1 and 0.5 have the mean 0.75. As bf16: 0x3f40 and 0x4000.
  const auto bytes = encode({1, -2, 0.5f});
  std::vector<int> expected{0x40, 0x3f, 0x00, 0x40,  // codebook
                            0x40, 0x20, 0x00,        // 0, 1 << 6, 2 << 12
                            0x07};                   // three indices with the upper bits 0
  expected.resize(4 + 3 + 16, 0);
  expected.push_back(0x0c);  // the second one: large and negative
  std::vector<int> got;
  for (const std::byte b : bytes) got.push_back(std::to_integer<int>(b));
  EXPECT_EQ(got, expected);
  EXPECT_EQ(decode(bytes, 3), (std::vector<float>{0.75f, -2, 0.75f}));
}

TEST(Sparse2, CostsLessThanItMay) {
  EXPECT_EQ(sparse2_size(4096), 84u);
  EXPECT_EQ(sparse2_size(3 * 4096 + 1), 3 * 84u + 22u);
  EXPECT_EQ(sparse2_size(0), 0u);
  const double bits = 8.0 * static_cast<double>(sparse2_size(1 << 20)) / (1 << 20);
  EXPECT_EQ(bits, 0.1640625);
  EXPECT_LE(bits, 0.22);
}

// Many equal magnitudes, so that ties decide; chunks and tails of every kind.
TEST(Sparse2, KeepsTheLargestAndOfEqualOnesTheFirst) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Prng prng(seed);
    std::vector<float> in(seed % 4 == 0 ? 4096 : 1 + prng.below(4096));
    const auto range = static_cast<std::int64_t>(seed % 2 == 0 ? 20 : 100'000);
    for (float& v : in) {
      v = static_cast<float>(prng.range(1, range) * (prng.chance(0.5) ? 1 : -1));
    }
    std::vector<std::size_t> order(in.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::abs(in[a]) > std::abs(in[b]);
    });
    const std::vector<float> out = decode(encode(in), in.size());
    double kept = 0, sent = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const float value = out[order[i]];
      ASSERT_EQ(value != 0, i < kSparseKept) << "seed " << seed << ", rank " << i;
      if (value == 0) continue;
      EXPECT_EQ(std::signbit(value), std::signbit(in[order[i]]));
      kept += std::abs(in[order[i]]);
      sent += std::abs(value);
    }
    EXPECT_NEAR(sent / kept, 1, 0x1p-8);  // bucket means keep the sum, up to bf16
  }
}

TEST(Sparse2, EveryChunkHasItsCodebook) {
  std::vector<float> in(2 * 4096 + 10, 0.0f);
  in[7] = 8;
  in[4096 + 4095] = -0.125f;
  in[8192 + 9] = 1024;
  EXPECT_EQ(decode(encode(in), in.size()), in);
}

TEST(Sparse2, ZerosAreZeros) {
  EXPECT_EQ(decode(encode(std::vector<float>(5000, 0.0f)), 5000), std::vector<float>(5000, 0.0f));
  EXPECT_EQ(decode(encode({1e-40f, -1e-42f}), 2), (std::vector<float>{0, 0}));
  EXPECT_TRUE(encode({}).empty());
}

TEST(Sparse2, RefusesWhatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t place : {0u, 63u, 64u, 4095u, 4500u}) {
      std::vector<float> in = normal_values(5000, 1), out(5000);
      in[place] = bad;
      EXPECT_EQ(sparse2_decode(encode(in), out).error().code, Code::kDataLoss);
    }
  }
  const float max = std::numeric_limits<float>::max();
  EXPECT_TRUE(std::isfinite(decode(encode({max, -max}), 2)[0]));
}

struct Damage {
  const char* what;
  std::size_t byte;
  int value;
};

TEST(Sparse2, RefusesDamagedBytes) {
  std::vector<float> out(100);
  const auto good = encode(normal_values(100, 2));  // 4 codebook, 48 lower, 16 upper, 16 codes
  ASSERT_TRUE(sparse2_decode(good, out).ok());
  for (const Damage& d : {Damage{"negative magnitude", 1, 0xbf},
                          {"infinite", 3, 0x7f},
                          {"not in order", 1, 0x60},
                          {"index missing", 52, 0},
                          {"index too large", 67, 0x80},
                          {"descending", 4, 0x3f}}) {
    auto bytes = good;
    bytes[d.byte] = static_cast<std::byte>(d.value);
    if (d.byte == 3) bytes[2] = std::byte{0x80};
    EXPECT_EQ(sparse2_decode(bytes, out).error().code, Code::kDataLoss) << d.what;
  }
  auto longer = good;
  longer.push_back({});
  EXPECT_FALSE(sparse2_decode(longer, out).ok());
}

// Whatever a peer sends is refused or decodes to finite values.
TEST(Sparse2, AnyBytesAreSafe) {
  const auto good = encode(normal_values(4096 + 200, 3));
  Prng prng(4);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = good;
    const std::uint64_t flips = 1 + prng.below(4);
    for (std::uint64_t i = 0; i < flips; ++i) {
      bytes[prng.below(bytes.size())] ^= static_cast<std::byte>(1u << prng.below(8));
    }
    std::vector<float> out(4096 + 200);
    if (!sparse2_decode(bytes, out).ok()) {
      ++refused;
      continue;
    }
    for (const float value : out) ASSERT_TRUE(std::isfinite(value));
  }
  EXPECT_GT(refused, 2000);
}

TEST(SparseMean, IsOverTheMembersThatSent) {
  const auto a = encode({2, 0, 0}), b = encode({4, 4, 1});
  const SparseTerm terms[] = {{a, 1, 1}, {b, 3, 1.5f}};  // b's values count half
  std::vector<float> mean(3, NAN);
  ASSERT_TRUE(sparse2_mean(terms, mean).ok());
  EXPECT_EQ(mean, (std::vector<float>{(2 + 1.5f * 4) / 4, 2, 0.5f}));
}

TEST(SparseMean, NobodyGivesZeros) {
  std::vector<float> mean(5000, NAN);
  ASSERT_TRUE(sparse2_mean({}, mean).ok());
  EXPECT_EQ(mean, std::vector<float>(5000, 0.0f));
}

TEST(ErrorFeedback, SendsLaterWhatItKept) {
  ErrorFeedback feedback(4096, 0.95);
  std::vector<float> gradient(4096, 0.0f);
  for (std::size_t i = 0; i < 65; ++i) gradient[i] = 1;
  const auto first = feedback.encode(gradient);
  EXPECT_EQ(decode(first, 4096)[63], 1);
  EXPECT_EQ(decode(first, 4096)[64], 0);
  // An aborted round: the same gradient gives the same bytes again.
  EXPECT_EQ(feedback.encode(gradient), first);
  ASSERT_TRUE(feedback.commit(gradient, first).ok());
  std::vector<float> kept(4096, 0.0f);
  kept[64] = 1;
  EXPECT_TRUE(std::ranges::equal(feedback.residual(), kept));

  const auto second = feedback.encode(std::vector<float>(4096, 0.0f));
  EXPECT_EQ(decode(second, 4096)[64], 0.94921875f);  // 0.95 as bf16
  ASSERT_TRUE(feedback.commit(std::vector<float>(4096, 0.0f), second).ok());
  EXPECT_EQ(feedback.residual()[64], 0.95f - 0.94921875f);
}

TEST(ErrorFeedback, ADamagedEncodingChangesNothing) {
  ErrorFeedback feedback(4096 + 100, 0.95);
  const auto gradient = normal_values(4096 + 100, 5);
  auto bytes = feedback.encode(gradient);
  bytes[84 + 52] ^= std::byte{0xff};  // in the last chunk
  EXPECT_FALSE(feedback.commit(gradient, bytes).ok());
  EXPECT_TRUE(std::ranges::all_of(feedback.residual(), [](float v) { return v == 0; }));
}

// A constant gradient gets through: what is sent in the long run is what came in, less the decay.
TEST(ErrorFeedback, EverythingGetsThroughInTheEnd) {
  ErrorFeedback feedback(4096, 0.95);
  std::vector<float> gradient = normal_values(4096, 6);
  std::vector<int> sent(4096, 0);
  for (int round = 0; round < 400; ++round) {
    const auto bytes = feedback.encode(gradient);
    const auto values = decode(bytes, 4096);
    for (std::size_t i = 0; i < 4096; ++i) sent[i] += values[i] != 0;
    ASSERT_TRUE(feedback.commit(gradient, bytes).ok());
  }
  // The residual of a value that is never sent would be 20 gradients; the larger ones all were.
  for (std::size_t i = 0; i < 4096; ++i) {
    if (std::abs(gradient[i]) > 1) {
      EXPECT_GT(sent[i], 0) << i;
    }
    EXPECT_LE(std::abs(feedback.residual()[i]), 20 * std::abs(gradient[i]) + 20);
  }
}

TEST(ErrorFeedback, WithoutDecayWhatWasNotSentIsForgotten) {
  ErrorFeedback feedback(4096, 0);
  std::vector<float> gradient(4096, 0.0f);
  for (std::size_t i = 0; i < 65; ++i) gradient[i] = 1;
  const auto first = feedback.encode(gradient);
  ASSERT_TRUE(feedback.commit(gradient, first).ok());
  EXPECT_EQ(feedback.encode(gradient), first);
}

}  // namespace
}  // namespace shoal::outer_opt
