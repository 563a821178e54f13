// Runs of a packet's segments: payloads, headers and checksums, compared with sums done here.
#include "bench/line/core/packet.h"

#include <gtest/gtest.h>

#include "bench/line/core/packet_test_util.h"

namespace shoal::bench {
namespace {

unsigned at(const TrainHeader& header, std::size_t index, std::size_t size) {
  unsigned value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value = value << 8 | std::to_integer<unsigned>(header.bytes[index + i]);
  }
  return value;
}

unsigned ip_sum(const TrainHeader& header) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < 20; i += 2) sum += at(header, i, 2);
  return (sum & 0xffff) + (sum >> 16);
}

TEST(Packet, OfOneSegmentPassesAsItIs) {
  const Train train = whole(tcp_packet(140));
  EXPECT_EQ(train.count, 1);
  EXPECT_EQ(train.bytes(), 140);
  EXPECT_EQ(train.content().size(), 140u);
  EXPECT_EQ(header_of(train).size, 0u);
  EXPECT_EQ(destination_of(*train.packet), 0x0a000002u);
}

TEST(Packet, OfManySegmentsCountsTheHeadersOfEach) {
  const Train train = whole(tcp_packet(40 + 250, 100));
  EXPECT_EQ(train.count, 3);
  EXPECT_EQ(train.bytes(), 250 + 3 * 40);
  EXPECT_EQ(train.part(0, 2).bytes(), 280);
  EXPECT_EQ(train.part(2, 1).bytes(), 90);
}

TEST(Packet, ARunHasTheHeaderThatTheSenderWouldHaveWritten) {
  const Train train = whole(tcp_packet(40 + 250, 100));
  const Train middle = train.part(1, 1);
  EXPECT_EQ(std::to_integer<int>(middle.content()[0]), 100);
  EXPECT_EQ(middle.content().size(), 100u);
  const TrainHeader header = header_of(middle);
  EXPECT_EQ(header.size, 40u);
  EXPECT_EQ(at(header, 2, 2), 140u);
  EXPECT_EQ(at(header, 4, 2), 8u);
  EXPECT_EQ(ip_sum(header), 0xffffu);
  EXPECT_EQ(at(header, 24, 4), 1100u);
  EXPECT_EQ(at(header, 33, 1), 0x10u);  // ACK alone
}

TEST(Packet, FlagsBelongToTheFirstOrTheLastSegment) {
  const Train train = whole(tcp_packet(40 + 250, 100));
  EXPECT_EQ(at(header_of(train.part(0, 1)), 33, 1), 0x90u);
  EXPECT_EQ(at(header_of(train.part(1, 2)), 33, 1), 0x19u);
  EXPECT_EQ(at(header_of(train), 33, 1), 0x99u);
}

TEST(Packet, ThePseudoHeaderHasTheNewLength) {
  std::vector<std::byte> bytes = tcp_bytes(250);
  const unsigned pseudo = 0x0a00 + 1 + 0x0a00 + 2 + 6 + (20 + 250);
  bytes[36] = static_cast<std::byte>(pseudo >> 8);
  bytes[37] = static_cast<std::byte>(pseudo & 255);
  const Train train = whole(*make_packet(bytes, {true, 20, 16, 100}));
  EXPECT_EQ(at(header_of(train.part(2, 1)), 36, 2), pseudo - 200);
  EXPECT_EQ(at(header_of(train), 36, 2), pseudo);
}

TEST(Packet, WhatIsNoneIsRefused) {
  std::vector<std::byte> bytes = tcp_bytes(100);
  EXPECT_TRUE(make_packet(bytes, {}));
  EXPECT_FALSE(make_packet({}, {}));
  EXPECT_FALSE(make_packet(std::span(bytes).first(30), {}));  // shorter than it says
  bytes[9] = std::byte{17};                                   // UDP
  EXPECT_FALSE(make_packet(bytes, {true, 20, 16, 50}));
  bytes[9] = std::byte{6};
  bytes[32] = std::byte{0xf0};  // a header of 60 bytes is within the packet, one of 16 is too short
  EXPECT_TRUE(make_packet(bytes, {true, 20, 16, 50}));
  bytes[32] = std::byte{0x40};
  EXPECT_FALSE(make_packet(bytes, {true, 20, 16, 50}));
  bytes[0] = std::byte{0x65};  // IPv6
  EXPECT_FALSE(make_packet(bytes, {}));
}

}  // namespace
}  // namespace shoal::bench
