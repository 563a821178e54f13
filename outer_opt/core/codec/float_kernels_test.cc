// fp16 and bf16 by hand, and the reference of both on every bit pattern.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec_kernels.h"
#include "outer_opt/core/codec/codec_test_util.h"

namespace shoal::outer_opt {
namespace {

// The kernels of both, by name: they take any n.
struct Halves {
  const char* name;
  CodecKernels kernels;
};
const Halves kHalves[] = {{"fp16", kFp16Reference}, {"bf16", kBf16Reference}};

TEST(Fp16, PatternsByHand) {
  // 1 = 2^0, 1.5, -2 = -2^1, 65504 the largest, 2^-24 the smallest; little-endian.
  const std::vector<float> in{1, 1.5f, -2, 65504, 0x1p-24f};
  const Encoded bytes = encode(CodecKind::kFp16, in);
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
  const Encoded bytes = encode(CodecKind::kBf16, in);
  EXPECT_EQ(bytes_of(bytes), (std::vector<int>{0x80, 0x3f, 0xc0, 0xbf, 0x80, 0x43, 0x00, 0x00}));
  EXPECT_EQ(decode(CodecKind::kBf16, bytes, 4), in);
}

TEST(Bf16, RoundsToEvenAndHoldsAtTheLargest) {
  // Between 256 and 512 only even numbers exist.
  const float max = std::numeric_limits<float>::max();
  const auto out = decode(CodecKind::kBf16, encode(CodecKind::kBf16, {257, 259, max, -max}), 4);
  EXPECT_EQ(out, (std::vector<float>{256, 260, 0x1.fep127f, -0x1.fep127f}));
}

// Each of the 65,536 patterns decodes to a value that encodes to the pattern again.
TEST(FloatKernels, HalvesComeBackUnchanged) {
  for (const Halves& format : kHalves) {
    const CodecKernels& kernels = format.kernels;
    for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
      const auto half = static_cast<std::uint16_t>(pattern);
      float value = 0;
      std::uint16_t again = 0;
      if (!kernels.decode(reinterpret_cast<const std::byte*>(&half), 1, &value)) continue;
      kernels.encode(&value, 1, reinterpret_cast<std::byte*>(&again));
      ASSERT_EQ(again, half) << format.name;
    }
  }
}

// Between two neighbors the nearer one is taken, and of two as near the even one.
TEST(FloatKernels, HalvesRoundToTheNearest) {
  for (const Halves& format : kHalves) {
    const CodecKernels& kernels = format.kernels;
    const auto value_of = [&](std::uint16_t half) {
      float value = 0;
      kernels.decode(reinterpret_cast<const std::byte*>(&half), 1, &value);
      return value;
    };
    for (std::uint16_t low = 0; std::isfinite(value_of(low + 1)); ++low) {
      const float a = value_of(low), b = value_of(low + 1);
      const float middle = a + (b - a) / 2;
      const float inputs[] = {std::nextafter(middle, a), middle, std::nextafter(middle, b)};
      std::uint16_t got[3];
      kernels.encode(inputs, 3, reinterpret_cast<std::byte*>(got));
      // The neighbors of a denormal middle of bf16 may not exist; a tie is then all there is.
      if (inputs[0] != middle) {
        ASSERT_EQ(got[0], low) << format.name << " above " << a;
      }
      ASSERT_EQ(got[1], low % 2 == 0 ? low : low + 1) << format.name << " above " << a;
      ASSERT_EQ(got[2], low + 1) << format.name << " above " << a;
    }
  }
}

}  // namespace
}  // namespace shoal::outer_opt
