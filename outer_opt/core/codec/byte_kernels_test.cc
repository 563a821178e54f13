// int8 and e5m2 by hand: scales, codes, and values that are too small for them.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec_kernels.h"
#include "outer_opt/core/codec/codec_test_util.h"

namespace shoal::outer_opt {
namespace {

TEST(Int8, SmallIntegersAreExact) {
  const std::vector<float> in{127, -127, 0, 1, -64};  // scale 1
  const Encoded bytes = encode(CodecKind::kInt8, in);
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
  const Encoded bytes = encode(CodecKind::kInt8, in);
  EXPECT_EQ(bytes.size(), 4u + 256u + 4u + 2u);
  EXPECT_EQ(decode(CodecKind::kInt8, bytes, in.size()), in);
}

TEST(Int8, ZerosAndDenormalsAreZero) {
  const std::vector<float> in{0.0f, -0.0f, 1e-44f, -1e-40f};
  EXPECT_EQ(encode(CodecKind::kInt8, in), Encoded(4 + 4));
}

// The value of a byte of e5m2 by definition.
float defined_value(unsigned code) {
  const unsigned exponent = code >> 2 & 31, mantissa = code & 3;
  const float sign = code < 128 ? 1.0f : -1.0f;
  if (exponent == 31) return sign * (mantissa == 0 ? INFINITY : NAN);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -16);
  return sign * std::ldexp(static_cast<float>(4 + mantissa), static_cast<int>(exponent) - 17);
}

// A block whose scale is 1: its first value is the largest magnitude, 57,344.
Encoded e5m2_block(std::vector<unsigned> codes) {
  codes.insert(codes.begin(), {0x00, 0x00, 0x80, 0x3f, 0x7b});
  Encoded bytes;
  for (const unsigned code : codes) bytes.push_back(static_cast<std::byte>(code));
  return bytes;
}

TEST(E5m2, BytesByHand) {
  // 57344 = 1.75 * 2^15 is the largest, 2^-16 the smallest magnitude; 1 has the exponent 15.
  const std::vector<float> in{57344, -57344, 1, 1.5f, -2, 0x1p-14f, 0x1.8p-15f, 0x1p-16f, 0};
  const Encoded bytes = encode(CodecKind::kE5m2, in);
  EXPECT_EQ(bytes_of(bytes), (std::vector<int>{0x00, 0x00, 0x80, 0x3f, 0x7b, 0xfb, 0x3c, 0x3e, 0xc0,
                                               0x04, 0x03, 0x01, 0x00}));
  EXPECT_EQ(decode(CodecKind::kE5m2, bytes, in.size()), in);
}

// 7 = 57344 * 2^-13: smaller blocks have smaller scales, and three bits of a number are kept.
TEST(E5m2, EachBlockHasItsScale) {
  std::vector<float> in(256 + 3, 7.0f);
  in[1] = -6, in[2] = 0.625f;
  in[256] = 1792, in[257] = -1280, in[258] = 7;
  const Encoded bytes = encode(CodecKind::kE5m2, in);
  EXPECT_EQ(bytes.size(), 4u + 256u + 4u + 3u);
  EXPECT_EQ(decode(CodecKind::kE5m2, bytes, in.size()), in);
}

TEST(E5m2, RoundsHalvesToEven) {
  const std::vector<float> in{57344, 9, 11, -13, 15, 9.01f, 0x1p-17f, 0x1.8p-16f, -0x1.4p-15f};
  EXPECT_EQ(decode(CodecKind::kE5m2, encode(CodecKind::kE5m2, in), in.size()),
            (std::vector<float>{57344, 8, 12, -12, 16, 10, 0, 0x1p-15f, -0x1p-15f}));
}

// Each byte decodes to its definition and is encoded from it, or is refused. Only -0 is not
// encoded: a zero has no sign.
TEST(E5m2, AllBytesAreNumbersOfTheFormatOrRefused) {
  for (const CodecKernels* kernels : {&kE5m2Reference, &fastest_kernels(CodecKind::kE5m2)}) {
    for (unsigned code = 0; code < 256; ++code) {
      const Encoded bytes = e5m2_block(std::vector<unsigned>(31, code));
      std::vector<float> out(32), sum(32);
      double squares[8] = {};
      const float value = defined_value(code);
      const bool good = std::isfinite(value);
      ASSERT_EQ(kernels->decode(bytes.data(), 32, out.data()), good) << code;
      ASSERT_EQ(kernels->accumulate(bytes.data(), 32, 1, sum.data(), squares), good) << code;
      if (!good) continue;
      for (std::size_t i = 1; i < 32; ++i) ASSERT_EQ(out[i], value) << code;
      ASSERT_EQ(out[0], 57344.0f);
      ASSERT_EQ(sum, out);
      Encoded again(bytes.size());
      kernels->encode(out.data(), 32, again.data());
      ASSERT_EQ(again, e5m2_block(std::vector<unsigned>(31, code == 0x80 ? 0 : code))) << code;
    }
  }
}

// Between two neighbors the nearer one is taken, and of two as near the even one; likewise below 0.
TEST(E5m2, RoundsToTheNearest) {
  for (const CodecKernels* kernels : {&kE5m2Reference, &fastest_kernels(CodecKind::kE5m2)}) {
    for (unsigned low = 0; low < 0x7b; ++low) {
      const float a = defined_value(low), b = defined_value(low + 1), middle = a + (b - a) / 2;
      const unsigned even = low % 2 == 0 ? low : low + 1;
      std::vector<float> in(32, 57344.0f);
      in[1] = std::nextafter(middle, a), in[2] = middle, in[3] = std::nextafter(middle, b);
      for (std::size_t i = 1; i <= 3; ++i) in[3 + i] = -in[i];
      std::vector<unsigned> expected(31, 0x7b);
      const unsigned codes[] = {low, even, low + 1};
      for (std::size_t i = 0; i < 3; ++i) {
        expected[i] = codes[i];
        expected[3 + i] = codes[i] == 0 ? 0 : codes[i] | 0x80;
      }
      Encoded bytes(4 + 32);
      kernels->encode(in.data(), 32, bytes.data());
      ASSERT_EQ(bytes, e5m2_block(expected)) << "above " << a;
    }
  }
}

// 2^-110 is the smallest scale: its smallest step, 2^-16 of it, is a normal number.
TEST(E5m2, BlocksBelowTheSmallestScaleAreZero) {
  EXPECT_EQ(encode(CodecKind::kE5m2, {0.0f, -0.0f, 1e-44f, -1e-30f}), Encoded(4 + 4));
  const std::vector<float> in{0x1.cp-95f, 0x1p-126f};
  EXPECT_EQ(decode(CodecKind::kE5m2, encode(CodecKind::kE5m2, in), 2), in);
  EXPECT_EQ(encode(CodecKind::kE5m2, {std::nextafter(in[0], 0.0f)}), Encoded(4 + 1));
}

TEST(E5m2, RefusesNegativeAndTooLargeScales) {
  std::vector<float> out(1);
  for (const float scale : {-1.0f, 0x1p113f, INFINITY, NAN}) {
    Encoded bytes(5);
    std::memcpy(bytes.data(), &scale, sizeof scale);
    EXPECT_EQ(codec(CodecKind::kE5m2).decode(bytes, out).error().code, Code::kDataLoss) << scale;
  }
}

}  // namespace
}  // namespace shoal::outer_opt
