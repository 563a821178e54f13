// Entropy coding gives back every byte, makes encoded normal values smaller by what their entropy
// promises, and refuses whatever it did not write.
#include "outer_opt/core/codec/entropy.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/sparse2.h"

namespace shoal::outer_opt {
namespace {

using Payload = std::vector<std::byte>;

std::vector<float> normal_values(std::size_t n) {
  Prng prng(7);
  std::vector<float> values(n);
  for (float& v : values) v = 0.01f * static_cast<float>(prng.normal());
  return values;
}

Payload encoded(CodecKind kind, const std::vector<float>& values) {
  Payload payload(codec(kind).encoded_size(values.size()));
  codec(kind).encode(values, payload);
  return payload;
}

// Empty when the payload is better sent as it is.
Payload coded(CodecKind kind, const Payload& payload) {
  EntropyCoder coder;
  Payload out(payload.size());
  out.resize(coder.encode(kind, payload, out));
  return out;
}

Status decode(CodecKind kind, const Payload& coded, Payload& payload) {
  EntropyCoder coder;
  const std::span<const std::byte> pieces[] = {coded};
  return coder.decode(kind, pieces, payload);
}

double share(CodecKind kind, std::size_t values) {
  const Payload payload = encoded(kind, normal_values(values));
  return static_cast<double>(coded(kind, payload).size()) / static_cast<double>(payload.size());
}

TEST(Entropy, GivesBackEveryByteOfEveryCodec) {
  for (const CodecKind kind : kDenseCodecs) {
    for (const std::size_t n : {4096u, 5001u, 70'000u}) {
      const Payload payload = encoded(kind, normal_values(n));
      const Payload smaller = coded(kind, payload);
      ASSERT_FALSE(smaller.empty()) << to_string(kind) << " " << n;
      ASSERT_LT(smaller.size(), payload.size());
      Payload back(payload.size());
      ASSERT_TRUE(decode(kind, smaller, back).ok());
      EXPECT_EQ(back, payload) << to_string(kind) << " " << n;
    }
  }
}

// The entropy of normal values is a little below these: exponents of 2.54 bits of 8 in fp32 and
// bf16, 5.47 bits of 8 in the upper byte of fp16, codes of 7.43 and 5.51 bits of 8, of 3.39
// and 3.5 of 4.
TEST(Entropy, NormalValuesShrinkToTheirEntropy) {
  EXPECT_LT(share(CodecKind::kFp32, 1 << 16), 0.835);
  EXPECT_LT(share(CodecKind::kFp16, 1 << 16), 0.855);
  EXPECT_LT(share(CodecKind::kBf16, 1 << 16), 0.670);
  EXPECT_LT(share(CodecKind::kInt8, 1 << 16), 0.945);
  EXPECT_LT(share(CodecKind::kE5m2, 1 << 16), 0.720);
  EXPECT_LT(share(CodecKind::kInt4, 1 << 16), 0.870);
  EXPECT_LT(share(CodecKind::kE3m0, 1 << 16), 0.890);
}

TEST(Entropy, EveryBitOfAValueSurvives) {
  std::vector<float> values = normal_values(4096);
  const float odd[] = {0.0f,
                       -0.0f,
                       std::numeric_limits<float>::infinity(),
                       -1e-45f,
                       std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::max()};
  std::copy(std::begin(odd), std::end(odd), values.begin() + 100);
  Payload payload(values.size() * sizeof(float)), back(payload.size());
  std::memcpy(payload.data(), values.data(), payload.size());
  ASSERT_TRUE(decode(CodecKind::kFp32, coded(CodecKind::kFp32, payload), back).ok());
  EXPECT_EQ(back, payload);
}

TEST(Entropy, WhatHasNoPatternIsSentAsItIs) {
  Prng prng(3);
  Payload noise(40'000);
  for (std::byte& b : noise) b = static_cast<std::byte>(prng.below(256));
  for (const CodecKind kind : kDenseCodecs) EXPECT_TRUE(coded(kind, noise).empty());
  EXPECT_TRUE(coded(CodecKind::kFp32, Payload(4)).empty());
  EXPECT_TRUE(coded(CodecKind::kInt8, {}).empty());
  EXPECT_TRUE(coded(CodecKind::kSparse2, Payload(sparse2_size(4096))).empty());
}

TEST(Entropy, RefusesWhatItDidNotWrite) {
  const Payload payload = encoded(CodecKind::kFp32, normal_values(5000));
  const Payload good = coded(CodecKind::kFp32, payload);
  Payload back(payload.size());
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{15'000}, good.size() - 1}) {
    const Status status =
        decode(CodecKind::kFp32, Payload(good.begin(), good.begin() + size), back);
    ASSERT_FALSE(status.ok()) << size;
    EXPECT_EQ(status.error().code, Code::kDataLoss);
  }
  Payload longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(CodecKind::kFp32, longer, back).ok());
  Payload of_fewer(payload.size() - 400);
  EXPECT_FALSE(decode(CodecKind::kFp32, good, of_fewer).ok());
  EXPECT_FALSE(decode(CodecKind::kSparse2, good, back).ok());
}

// Damage that it does not see is found by the checksum of the payload; here: nothing worse happens.
TEST(Entropy, SurvivesAnyDamage) {
  const Payload payload = encoded(CodecKind::kInt8, normal_values(3000));
  const Payload good = coded(CodecKind::kInt8, payload);
  Payload back(payload.size());
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); at += 7) {
    Payload bad = good;
    bad[at] ^= std::byte{0x5a};
    const Status status = decode(CodecKind::kInt8, bad, back);
    if (!status.ok()) ++refused;
    EXPECT_TRUE(!status.ok() || back != payload) << at;
  }
  EXPECT_GT(refused, 0);
}

TEST(Entropy, PiecesMayBeCutAnywhereAndACoderIsUsedAgain) {
  EntropyCoder coder;
  for (const CodecKind kind : {CodecKind::kFp32, CodecKind::kInt4, CodecKind::kBf16}) {
    const Payload payload = encoded(kind, normal_values(9000));
    Payload smaller(payload.size()), back(payload.size());
    smaller.resize(coder.encode(kind, payload, smaller));
    const std::span<const std::byte> all = smaller;
    const std::span<const std::byte> pieces[] = {
        all.first(1), all.subspan(1, 999), {}, all.subspan(1000)};
    ASSERT_TRUE(coder.decode(kind, pieces, back).ok());
    EXPECT_EQ(back, payload);
  }
}

}  // namespace
}  // namespace shoal::outer_opt
