// Helpers for the tests of codecs: example values, their encoding and decoding.
#pragma once

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/codec_pieces.h"

namespace shoal::outer_opt {

// More than two runs, and a remainder that does not fill a block.
inline constexpr std::size_t kExampleValues = 2 * kRunValues + 700;

// Normally distributed values, the same in every call.
inline std::vector<float> example_values() {
  Prng prng(5);
  std::vector<float> values(kExampleValues);
  for (float& v : values) v = static_cast<float>(prng.normal());
  return values;
}

// With this largest magnitude a block has a scale in which small integers are exact.
inline float exact_top(CodecKind kind) {
  if (kind == CodecKind::kInt4 || kind == CodecKind::kE5m2) return 7;
  return kind == CodecKind::kE3m0 ? 64 : 127;
}

using Encoded = std::vector<std::byte>;

inline Encoded encode(CodecKind kind, const std::vector<float>& in) {
  Encoded out(codec(kind).encoded_size(in.size()));
  codec(kind).encode(in, out);
  return out;
}

inline std::vector<float> decode(CodecKind kind, const Encoded& in, std::size_t n) {
  std::vector<float> out(n);
  const Status status = codec(kind).decode(in, out);
  EXPECT_TRUE(status.ok());
  return out;
}

inline std::vector<int> bytes_of(const Encoded& bytes) {
  std::vector<int> out;
  for (const std::byte b : bytes) out.push_back(std::to_integer<int>(b));
  return out;
}

}  // namespace shoal::outer_opt
