// int4 and e3m0 by hand: two values in a byte behind a scale in bf16.
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec_kernels.h"
#include "outer_opt/core/codec/codec_test_util.h"

namespace shoal::outer_opt {
namespace {

TEST(Int4, SmallIntegersAreExact) {
  const std::vector<float> in{7, -7, 0, 1, -3};  // scale 1 = 0x3f80
  const Encoded bytes = encode(CodecKind::kInt4, in);
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
  const Encoded bytes = encode(CodecKind::kE3m0, in);
  EXPECT_EQ(bytes_of(bytes), (std::vector<int>{0x80, 0x42, 0xe7, 0x45, 0x2b, 0x01}));
  EXPECT_EQ(decode(CodecKind::kE3m0, bytes, 8), in);
}

TEST(E3m0, RoundsToTheNearestPower) {
  // Half-way up from 3 * 2^k and from half of the smallest magnitude, 1.
  const std::vector<float> in{64, 48, 47, -3, 2.9f, 0.5f, 0.49f};
  EXPECT_EQ(decode(CodecKind::kE3m0, encode(CodecKind::kE3m0, in), 7),
            (std::vector<float>{64, 64, 32, -4, 2, 1, 0}));
}

}  // namespace
}  // namespace shoal::outer_opt
