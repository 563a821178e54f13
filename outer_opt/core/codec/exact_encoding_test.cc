#include "outer_opt/core/codec/exact_encoding.h"

#include "outer_opt/core/codec/codec_test_util.h"

namespace shoal::outer_opt {
namespace {

std::vector<float> back(CodecKind kind, const ExactEncoding& encoding, std::size_t count) {
  std::vector<float> out(count);
  EXPECT_TRUE(decode_exactly(kind, encoding.form, encoding.bytes, out).ok());
  return out;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

TEST(ExactEncoding, FindsTheBytesAgainThatValuesWereDecodedFrom) {
  Prng prng(3);
  for (const CodecKind kind : kDenseCodecs) {
    for (int i = 0; i < 200; ++i) {
      std::vector<float> values(static_cast<std::size_t>(prng.range(1, 900)));
      const double scale = std::exp(20 * (prng.unit() - 0.5));
      for (float& v : values) v = static_cast<float>(scale * prng.normal());
      const std::vector<float> decoded = decode(kind, encode(kind, values), values.size());
      const ExactEncoding encoding = encode_exactly(kind, decoded);
      if (kind != CodecKind::kFp32) {
        EXPECT_EQ(encoding.form, ExactForm::kCodec) << to_string(kind);
        EXPECT_EQ(encoding.bytes.size(), codec(kind).encoded_size(values.size()));
      }
      ASSERT_TRUE(same(back(kind, encoding, values.size()), decoded)) << to_string(kind);
    }
  }
}

TEST(ExactEncoding, KeepsWhatTheCodecNeverDecoded) {
  const std::vector<float> values = example_values();
  for (const CodecKind kind : {CodecKind::kInt8, CodecKind::kInt4, CodecKind::kFp16}) {
    const ExactEncoding encoding = encode_exactly(kind, values);
    EXPECT_EQ(encoding.form, ExactForm::kPlain);
    EXPECT_TRUE(same(back(kind, encoding, values.size()), values));
  }
}

TEST(ExactEncoding, StoresAnAverageOfFewValuesAsABitmap) {
  std::vector<float> values(1000);
  values[3] = 1.5f, values[997] = -0.25f, values[500] = -0.0f;
  const ExactEncoding encoding = encode_exactly(CodecKind::kSparse2, values);
  EXPECT_EQ(encoding.form, ExactForm::kBitmap);
  EXPECT_EQ(encoding.bytes.size(), 125u + 3 * 4);
  EXPECT_TRUE(same(back(CodecKind::kSparse2, encoding, values.size()), values));
}

TEST(ExactEncoding, RefusesBytesOfAnotherLength) {
  const std::vector<float> values(1000, 0.0f);
  ExactEncoding encoding = encode_exactly(CodecKind::kSparse2, values);
  std::vector<float> out(1000);
  encoding.bytes.push_back(std::byte{});
  EXPECT_FALSE(decode_exactly(CodecKind::kSparse2, ExactForm::kBitmap, encoding.bytes, out).ok());
  encoding.bytes.resize(3);
  EXPECT_FALSE(decode_exactly(CodecKind::kSparse2, ExactForm::kBitmap, encoding.bytes, out).ok());
  EXPECT_FALSE(decode_exactly(CodecKind::kSparse2, ExactForm::kCodec, encoding.bytes, out).ok());
  EXPECT_FALSE(decode_exactly(CodecKind::kInt8, ExactForm::kPlain, encoding.bytes, out).ok());
}

}  // namespace
}  // namespace shoal::outer_opt
