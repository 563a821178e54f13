// Headers: what is written is read, and what is damaged is refused before anything it announces.
#include "wire/stream/core/frame.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::wire::stream {
namespace {

FrameHeader data(std::uint32_t size, std::uint32_t offset, std::uint16_t head = 0) {
  return {FrameType::kData, head, head + piece_size(size, offset), 3, 7, size, offset};
}

std::vector<FrameHeader> good_headers() {
  FrameHeader credit{FrameType::kCredit, 0, 0, 2};
  credit.size = 4096;
  FrameHeader end{FrameType::kEnd, 0, 0, 2};
  end.message = 12;
  return {{FrameType::kHello, 0, kHelloBytes},
          {FrameType::kOpen, 0, 17, 1},
          {FrameType::kAccept, 0, 0, 1},
          data(0, 0),
          data(1, 0, 40),
          data(kPieceBytes, 0),
          data(kPieceBytes + 1, kPieceBytes, kHeadMax),
          data(kMessageMax, kMessageMax - kPieceBytes),
          credit,
          end,
          {FrameType::kCancel, 0, 9, 1},
          {FrameType::kBeat}};
}

Result<FrameHeader> parse(const HeaderBytes& bytes, std::uint32_t message_max = kMessageMax) {
  return parse_header(bytes, message_max);
}

TEST(Frame, WhatIsWrittenIsRead) {
  for (const FrameHeader& header : good_headers()) {
    const auto read = parse(encode(header));
    ASSERT_TRUE(read.ok()) << to_string(header.type) << ": " << to_string(read.error());
    EXPECT_EQ(*read, header);
  }
}

// The bytes on the wire, so that versions on two hosts agree: written out by hand.
TEST(Frame, HasTheseBytes) {
  const FrameHeader header{FrameType::kData, 2, 258, 0x01020304, 5, 256, 0};
  const unsigned char expected[kHeaderBytes] = {0x68, 0x53, 3, 0, 2, 0, 0, 0, 2, 1, 0, 0, 4, 3,
                                                2,    1,    5, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  const HeaderBytes bytes = encode(header);
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  }
}

void expect_refused(const FrameHeader& header, const char* field,
                    std::uint32_t message_max = kMessageMax) {
  const auto read = parse(encode(header), message_max);
  ASSERT_FALSE(read.ok()) << field;
  EXPECT_EQ(read.error().code, Code::kInvalidArgument);
  EXPECT_EQ(read.error().field, std::string("frame.") + field);
  EXPECT_FALSE(read.error().remedy.empty());
}

TEST(Frame, RefusesSizesThatDoNotFit) {
  expect_refused(data(kPieceBytes + 1, 0), "size", kPieceBytes);
  expect_refused(data(kMessageMax + 1, 0), "size", ~std::uint32_t{0});
  expect_refused(data(100, 1), "offset");
  expect_refused(data(kPieceBytes, kPieceBytes), "offset");
  FrameHeader header = data(100, 0);
  header.length = 99;
  expect_refused(header, "length");
  header = data(kPieceBytes * 2, 0);
  header.length = kPieceBytes * 2;
  expect_refused(header, "length");
  header = data(100, 0);
  header.head = kHeadMax + 1;
  header.length += header.head;
  expect_refused(header, "head");
  header = data(0, 0);
  header.head = 1;
  expect_refused(header, "head");
}

TEST(Frame, RefusesFieldsThatATypeDoesNotHave) {
  expect_refused({FrameType::kBeat, 0, 0, 1}, "stream");
  expect_refused({FrameType::kAccept}, "stream");
  expect_refused({FrameType::kAccept, 0, 1, 1}, "length");
  expect_refused({FrameType::kOpen, 0, kTextMax + 1, 1}, "length");
  expect_refused({FrameType::kOpen, 1, 2, 1}, "head");
  expect_refused({FrameType::kOpen, 0, 2, 1, 1}, "message");
  expect_refused({FrameType::kEnd, 0, 0, 1, 1, 1}, "size");
  expect_refused({FrameType::kCredit, 0, 0, 1, 0, 1, kPieceBytes}, "offset");
  expect_refused({FrameType::kCredit, 0, 0, 1}, "size");
}

TEST(Frame, RefusesWhatIsNoneOfOurs) {
  const auto with = [](std::size_t at, int value) {
    HeaderBytes bytes = encode(data(100, 0));
    bytes[at] = static_cast<std::byte>(value);
    const auto read = parse(bytes);
    return read.ok() ? std::string() : read.error().field;
  };
  EXPECT_EQ(with(0, 'G'), "frame.mark");  // "GET / HTTP"
  EXPECT_EQ(with(2, 8), "frame.type");
  EXPECT_EQ(with(3, 1), "frame.flags");
  EXPECT_EQ(with(6, 1), "frame.reserved");
}

// What is accepted means one thing only: written again, it has the same bytes. And it never
// announces more than the quota.
TEST(Frame, TenThousandDamagedHeaders) {
  Prng prng(20);
  const auto headers = good_headers();
  int accepted = 0;
  for (int i = 0; i < 10'000; ++i) {
    HeaderBytes bytes = encode(headers[prng.below(headers.size())]);
    for (std::uint64_t damage = 1 + prng.below(3); damage > 0; --damage) {
      bytes[prng.below(kHeaderBytes)] = static_cast<std::byte>(prng.below(256));
    }
    const std::uint32_t most = kPieceBytes << prng.below(7);
    const auto read = parse(bytes, most);
    if (!read.ok()) {
      ASSERT_EQ(read.error().code, Code::kInvalidArgument);
      continue;
    }
    ++accepted;
    ASSERT_EQ(encode(*read), bytes);
    ASSERT_LE(read->length, kHeadMax + kPieceBytes);
    if (read->type == FrameType::kData) {
      ASSERT_LE(read->size, most);
    }
  }
  EXPECT_GT(accepted, 200);  // damage of a number that may have any value
  EXPECT_LT(accepted, 5'000);
}

TEST(Hello, WhatIsWrittenIsRead) {
  const Hello hello{{0x1122334455667788, 9}, 3, 8, kPieceBytes, 2 * kPieceBytes, 64};
  const auto read = parse_hello(encode(hello));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, hello);
}

TEST(Hello, RefusesAnotherVersionAndNonsense) {
  const Hello good{{1, 2}, 0, 1, kPieceBytes, 2 * kPieceBytes, 64};
  auto bytes = encode(good);
  bytes[0] = std::byte{9};
  EXPECT_EQ(parse_hello(bytes).error().code, Code::kIncompatible);
  const auto field = [](const Hello& hello) {
    const auto read = parse_hello(encode(hello));
    return read.ok() ? std::string() : read.error().field;
  };
  Hello bad = good;
  bad.lane = 1;
  EXPECT_EQ(field(bad), "frame.lanes");
  bad = good;
  bad.lanes = kLanesMax + 1;
  EXPECT_EQ(field(bad), "frame.lanes");
  bad = good;
  bad.message_max = kPieceBytes - 1;
  EXPECT_EQ(field(bad), "frame.message_max");
  bad = good;
  bad.window = 2 * kPieceBytes - 1;
  EXPECT_EQ(field(bad), "frame.window");
  EXPECT_EQ(parse_hello(std::span(bytes).first(10)).error().field, "frame.length");
}

TEST(Reason, CodeAndSentence) {
  const std::string text = encode_reason(Code::kNotFound, "nobody waits");
  const Error read = parse_reason(std::as_bytes(std::span(text)));
  EXPECT_EQ(read.code, Code::kNotFound);
  EXPECT_EQ(read.message, "nobody waits");
  const std::string unknown = "\x7f";
  EXPECT_EQ(parse_reason(std::as_bytes(std::span(unknown))).code, Code::kInternal);
  EXPECT_LE(encode_reason(Code::kInternal, std::string(5000, 'x')).size(), kTextMax);
}

}  // namespace
}  // namespace shoal::wire::stream
