// int8 by hand: scales, codes, and what is too small for them.
#include <cstring>
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

}  // namespace
}  // namespace shoal::outer_opt
