// Headers survive the wire; what no sender writes is refused; no bytes make the reader crash.
#include "swarm/pipeline/frame.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "swarm/pipeline/stream.h"

namespace shoal::swarm {
namespace {

FrameHeader sample() {
  FrameHeader h = header_of(BackwardHeader{
      {7, -1, ReplicaId(9), 3, PassKind::kLogits}, 4, milliseconds(5), -1.5, Tokens(640)});
  h.reason = RefusalReason::kOverCredit;
  h.codec = ActivationCodec::kInt8;
  h.rows = 3;
  h.columns = 100;
  h.body_size = encoded_size(h.codec, h.values());
  h.checksum = 0x0123456789abcdef;
  return h;
}

// Trainers of the version before refuse a stream with another name.
TEST(StreamName, IsTheTextThatThePreviousVersionReads) {
  const StreamName name{JobId(1), 2, ReplicaId(3), ReplicaId(4)};
  EXPECT_EQ(to_purpose(name), "pipeline 4 1 2 3 4");
  EXPECT_EQ(parse_purpose("pipeline 4 1 2 3 4"), name);
}

TEST(Frame, HeadersSurviveTheWire) {
  const FrameHeader h = sample();
  const auto read = decode_header(encode_header(h));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, h);
  EXPECT_EQ(backward_of(*read).service, milliseconds(5));
}

TEST(Frame, WhatNoSenderWritesIsRefused) {
  const auto refused = [](auto change) {
    FrameHeader h = sample();
    change(h);
    return !decode_header(encode_header(h)).ok();
  };
  EXPECT_FALSE(refused([](FrameHeader&) {}));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.kind = static_cast<FrameKind>(0); }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.kind = static_cast<FrameKind>(8); }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.kind = FrameKind::kPing; }));  // with a body
  EXPECT_TRUE(refused([](FrameHeader& h) { h.microbatch.kind = static_cast<PassKind>(3); }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.codec = static_cast<ActivationCodec>(3); }));
  EXPECT_TRUE(refused([](FrameHeader& h) { ++h.rows; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { ++h.body_size; }));
  EXPECT_FALSE(refused([](FrameHeader& h) { --h.body_size, h.entropy_coded = true; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.entropy_coded = true; }));  // and no smaller
  EXPECT_TRUE(refused([](FrameHeader& h) { h.body_size = 0, h.entropy_coded = true; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.rows = h.columns = 0xffffffffu; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.loss_tokens = -1; }));
  EXPECT_TRUE(
      refused([](FrameHeader& h) { h.loss_sum = std::numeric_limits<double>::quiet_NaN(); }));
  const auto bytes = encode_header(sample());
  EXPECT_FALSE(decode_header(std::span(bytes).first(95)).ok());
}

TEST(Frame, AnyBytesAreReadOrRefused) {
  Prng prng(1);
  int read = 0;
  for (int i = 0; i < 200'000; ++i) {
    auto bytes = encode_header(sample());
    for (auto flips = prng.range(1, 3); flips > 0; --flips) {
      bytes[prng.below(bytes.size())] = static_cast<std::byte>(prng.next());
    }
    const auto header = decode_header(bytes);
    if (!header.ok()) continue;
    ++read;
    EXPECT_EQ(encode_header(*header), bytes);
  }
  EXPECT_GT(read, 1000);
}

TEST(Frame, BodiesAreChecked) {
  std::vector<std::byte> bytes(1000, std::byte{7});
  FrameHeader h = sample();
  h.body_size = bytes.size();
  const std::span<const std::byte> whole[] = {bytes};
  const std::span<const std::byte> parts[] = {std::span(bytes).first(300),
                                              std::span(bytes).subspan(300)};
  h.checksum = body_checksum(whole);
  EXPECT_TRUE(check_body(h, parts).ok());
  bytes[500] ^= std::byte{1};
  EXPECT_FALSE(check_body(h, parts).ok());
  bytes[500] ^= std::byte{1};
  EXPECT_FALSE(check_body(h, std::span(parts).first(1)).ok());
}

// A forward of 40 tokens and 3000 values, and its header.
std::pair<FrameHeader, std::vector<std::byte>> forward_with(ActivationCodec codec) {
  FrameHeader h = header_of(ForwardHeader{{7, 1, ReplicaId(9), 3}, 4}, FrameKind::kForward);
  h.codec = codec;
  h.rows = 30, h.columns = 100, h.tokens = 40;
  const std::size_t front = h.tokens * sizeof(std::uint32_t);
  h.body_size = front + encoded_size(codec, h.values());
  Prng prng(2);
  std::vector<float> values(h.values());
  for (float& v : values) v = static_cast<float>(prng.normal());
  std::vector<std::byte> body(h.body_size, std::byte{5});
  EXPECT_TRUE(encode(codec, values, std::span(body).subspan(front)));
  const std::span<const std::byte> pieces[] = {body};
  h.checksum = body_checksum(pieces);
  return {h, body};
}

TEST(Frame, EntropyCodedBodiesAreSmallerAndComeBack) {
  const std::pair<ActivationCodec, double> shares[] = {{ActivationCodec::kFp32, 0.86},
                                                       {ActivationCodec::kBf16, 0.72},
                                                       {ActivationCodec::kInt8, 0.97}};
  outer_opt::EntropyCoder coder;
  for (const auto& [codec, share] : shares) {
    const auto [header, body] = forward_with(codec);
    FrameHeader h = header;
    std::vector<std::byte> sent = body, plain;
    entropy_encode(coder, h, sent);
    ASSERT_TRUE(h.entropy_coded) << to_string(codec);
    EXPECT_LT(static_cast<double>(h.body_size), share * static_cast<double>(body.size()));
    ASSERT_TRUE(decode_header(encode_header(h)).ok());
    sent.resize(h.body_size);
    const std::span<const std::byte> all = sent;
    const std::span<const std::byte> pieces[] = {all.first(3), all.subspan(3, 400),
                                                 all.subspan(403)};
    ASSERT_TRUE(entropy_decode(coder, h, pieces, plain).ok());
    EXPECT_EQ(h, header);
    EXPECT_EQ(plain, body);
  }
}

TEST(Frame, ABodyThatCannotBeExpandedIsDamaged) {
  outer_opt::EntropyCoder coder;
  FrameHeader h = forward_with(ActivationCodec::kBf16).first;
  h.entropy_coded = true;
  for (const std::size_t size : {100u, 160u, 2000u}) {
    FrameHeader copy = h;
    const std::vector<std::byte> noise(size, std::byte{0x77});
    const std::span<const std::byte> pieces[] = {noise};
    std::vector<std::byte> plain;
    EXPECT_EQ(entropy_decode(coder, copy, pieces, plain).error().code, Code::kDataLoss) << size;
  }
}

TEST(Frame, WordsSurviveTheWire) {
  const ProgressGossip gossip{5, 12, {{ReplicaId(1), 11, false}, {ReplicaId(8), -1, true}}};
  const auto header = decode_header(encode_header(header_of(gossip)));
  ASSERT_TRUE(header.ok());
  auto body = body_of(gossip);
  const std::span<const std::byte> cut[] = {std::span(body).first(5), std::span(body).subspan(5)};
  const auto read = gossip_of(*header, cut);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, gossip);
  body[16] = std::byte{2};
  EXPECT_FALSE(gossip_of(*header, cut).ok());
}

}  // namespace
}  // namespace shoal::swarm
