// One pass over a payload in pieces gives what several passes over the whole would give.
#include "outer_opt/core/codec/codec_pieces.h"

#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec_test_util.h"

namespace shoal::outer_opt {
namespace {

struct Payload {
  explicit Payload(CodecKind kind) : of(codec(kind)), bytes(of.encoded_size(kExampleValues)) {
    of.encode(example_values(), bytes);
    const std::span<const std::byte> whole[] = {bytes};
    header.count = kExampleValues;
    header.payload_size = static_cast<std::uint32_t>(bytes.size());
    header.checksum = payload_checksum(whole);
  }
  std::vector<std::span<const std::byte>> cut(std::size_t at) const {
    const std::span<const std::byte> all(bytes);
    return {all.first(at), all.subspan(at, 0), all.subspan(at, 37), all.subspan(at + 37)};
  }
  const Codec& of;
  std::vector<std::byte> bytes;
  FrameHeader header;
};

TEST(ReadPayload, PiecesGiveWhatTheWholeGives) {
  for (const CodecKind kind : kDenseCodecs) {
    const Payload payload(kind);
    std::vector<float> whole(kExampleValues), pieces(kExampleValues);
    ASSERT_TRUE(payload.of.decode(payload.bytes, whole).ok());
    for (const std::size_t at : {std::size_t{0}, std::size_t{3}, payload.bytes.size() / 2}) {
      ASSERT_TRUE(decode_payload(payload.of, payload.header, payload.cut(at), pieces).ok());
      EXPECT_EQ(pieces, whole);
    }
  }
}

TEST(ReadPayload, RunsAreShortAndWithoutGaps) {
  const Payload payload(CodecKind::kInt8);
  std::size_t next = 0;
  const auto count = [&](const ValueRun& run) {
    EXPECT_EQ(run.first, next);
    EXPECT_LE(run.count, kRunValues);
    next += run.count;
    return Status();
  };
  ASSERT_TRUE(read_payload(payload.of, payload.header, payload.cut(5), count).ok());
  EXPECT_EQ(next, kExampleValues);
  next = 0;
  ASSERT_TRUE(for_each_run(kExampleValues, count).ok());
  EXPECT_EQ(next, kExampleValues);
}

TEST(ReadPayload, DamageIsToldBeforeWhatItLedTo) {
  const auto refuse = [](const ValueRun&) -> Status { return Error{Code::kInternal, "refused"}; };
  Payload payload(CodecKind::kFp32);
  EXPECT_EQ(read_payload(payload.of, payload.header, payload.cut(9), refuse).error().code,
            Code::kInternal);
  payload.bytes.back() ^= std::byte{1};
  EXPECT_EQ(read_payload(payload.of, payload.header, payload.cut(9), refuse).error().code,
            Code::kDataLoss);
  payload.header.payload_size -= 4;
  const Status size = read_payload(payload.of, payload.header, payload.cut(9), refuse);
  EXPECT_EQ(size.error().code, Code::kDataLoss);
}

}  // namespace
}  // namespace shoal::outer_opt
