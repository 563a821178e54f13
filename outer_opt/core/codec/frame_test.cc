// The header byte for byte, every refusal, and the checksum over pieces.
#include "outer_opt/core/codec/frame.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

FrameHeader sample() {
  return {FrameKind::kAverage, CodecKind::kInt8, 3, 0x01020304, 0x1112131415, 300, 308, 0xabcdef};
}

std::vector<std::byte> bytes_of(const FrameHeader& header) {
  const auto bytes = encode_header(header);
  return {bytes.begin(), bytes.end()};
}

TEST(Frame, HeaderLayout) {
  const auto bytes = bytes_of(sample());
  const std::vector<int> expected = {'S',  'H', 'F',  'R',  1,    0, 2,    1,    3,    0,
                                     0,    0,   4,    3,    2,    1, 0x15, 0x14, 0x13, 0x12,
                                     0x11, 0,   0,    0,    0x2c, 1, 0,    0,    0x34, 1,
                                     0,    0,   0xef, 0xcd, 0xab, 0, 0,    0,    0,    0};
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  }
  const auto back = decode_header(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, sample());
}

TEST(Frame, SaysWhetherItsSenderReadsMemory) {
  FrameHeader header = sample();
  header.cross_memory = true;
  const auto bytes = bytes_of(header);
  EXPECT_EQ(bytes[5], std::byte{1});
  const auto back = decode_header(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, header);
}

TEST(Frame, SaysWhetherItsPayloadIsEntropyCoded) {
  FrameHeader header = sample();
  header.cross_memory = header.entropy_coded = true;
  const auto bytes = bytes_of(header);
  EXPECT_EQ(bytes[5], std::byte{3});
  const auto back = decode_header(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, header);
}

TEST(Frame, RefusesWhatItDoesNotKnow) {
  const auto refused = [](std::size_t at, int value) {
    auto bytes = bytes_of(sample());
    bytes[at] = static_cast<std::byte>(value);
    return !decode_header(bytes).ok();
  };
  EXPECT_TRUE(refused(0, 'X'));
  EXPECT_TRUE(refused(4, 2));
  EXPECT_TRUE(refused(5, 4));
  EXPECT_TRUE(refused(6, 0));
  EXPECT_TRUE(refused(6, 3));
  EXPECT_TRUE(refused(7, 2));
  EXPECT_TRUE(refused(23, 0x80));  // negative position
  EXPECT_TRUE(refused(27, 0x7f));  // count above the limit
  EXPECT_TRUE(refused(28, 0));     // payload size of another count
  FrameHeader empty = sample();
  empty.count = empty.payload_size = 0;
  EXPECT_FALSE(decode_header(bytes_of(empty)).ok());
  EXPECT_FALSE(decode_header(std::vector<std::byte>(39)).ok());
  EXPECT_FALSE(decode_header(std::vector<std::byte>(41)).ok());
}

TEST(Frame, ChecksumIgnoresHowThePayloadIsCut) {
  std::vector<std::byte> data(1000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  const std::span<const std::byte> all(data);
  const std::span<const std::byte> whole[] = {all};
  const std::span<const std::byte> cut[] = {all.first(1), all.subspan(1, 0), all.subspan(1, 500),
                                            all.subspan(501)};
  FrameHeader header;
  header.payload_size = 1000;
  header.checksum = payload_checksum(whole);
  EXPECT_EQ(payload_checksum(cut), header.checksum);
  EXPECT_TRUE(check_payload(header, cut).ok());
  EXPECT_FALSE(check_payload(header, std::span(cut).first(3)).ok());
  data[999] ^= std::byte{1};
  EXPECT_EQ(check_payload(header, cut).error().code, Code::kDataLoss);
}

FrameReference sample_reference() { return {0x7f0102030405, sample()}; }

std::vector<std::byte> bytes_of(const FrameReference& reference) {
  const auto bytes = encode_reference(reference);
  return {bytes.begin(), bytes.end()};
}

TEST(FrameReference, IsAnAddressBeforeTheHeader) {
  const auto bytes = bytes_of(sample_reference());
  const std::vector<int> front = {'S', 'H', 'L', 'N', 0, 0, 0, 0, 5, 4, 3, 2, 1, 0x7f, 0, 0};
  ASSERT_EQ(bytes.size(), front.size() + kFrameHeaderSize);
  for (std::size_t i = 0; i < front.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), front[i]) << i;
  }
  EXPECT_TRUE(is_reference(bytes));
  const auto back = decode_reference(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back->header.by_reference);
  EXPECT_EQ(back->address, sample_reference().address);
  EXPECT_EQ(bytes_of(*back), bytes);
}

TEST(FrameReference, RefusesWhatIsNone) {
  EXPECT_FALSE(is_reference(bytes_of(sample())));
  EXPECT_FALSE(is_reference(std::vector<std::byte>(3)));
  const auto refused = [](std::size_t at, int value) {
    auto bytes = bytes_of(sample_reference());
    bytes[at] = static_cast<std::byte>(value);
    return !decode_reference(bytes).ok();
  };
  EXPECT_TRUE(refused(0, 'X'));
  EXPECT_TRUE(refused(4, 1));
  EXPECT_TRUE(refused(16, 'X'));    // of the header
  EXPECT_TRUE(refused(16 + 5, 2));  // entropy coded
  EXPECT_FALSE(decode_reference(bytes_of(FrameReference{0, sample()})).ok());
  auto bytes = bytes_of(sample_reference());
  bytes.pop_back();
  EXPECT_FALSE(decode_reference(bytes).ok());
}

// The digest is made of the checksums of averages, so those are looked at whatever way they came.
TEST(FrameReference, OnlyAnAverageHasAChecksum) {
  const std::vector<std::byte> data(8);
  const std::array pieces = {std::span<const std::byte>(data)};
  FrameHeader header{FrameKind::kContribution, CodecKind::kFp32, 0, 0, 0, 2, 8, 1};
  header.cross_memory = header.by_reference = true;
  EXPECT_TRUE(check_payload(header, pieces).ok());
  EXPECT_FALSE(check_payload(header, {}).ok());  // its size counts
  header.kind = FrameKind::kAverage;
  EXPECT_FALSE(check_payload(header, pieces).ok());
  header.checksum = payload_checksum(pieces);
  EXPECT_TRUE(check_payload(header, pieces).ok());
}

}  // namespace
}  // namespace shoal::outer_opt
