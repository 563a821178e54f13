// Frames of a session as messages: with their payload, encoded, or by reference for who can read
// memory.
#include "outer_opt/transport/frame_message.h"

#include <array>
#include <cstring>

#include <gtest/gtest.h>
#include <unistd.h>

#include "outer_opt/core/reduce/make_session.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kValues = 1000;

// The first of two, which contributes the values 0, 1, 2, ...
struct Sender {
  explicit Sender(CodecKind codec) : input(kValues), average(kValues) {
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i);
    ReducePlan plan;
    plan.codec = codec;
    plan.value_count = kValues;
    plan.members = {{ReplicaId(1), "a:1", 1, 1, 0, 0}, {ReplicaId(2), "b:1", 1, 1, 0, 0}};
    assign_parts(plan, {1, 1});
    session = make_session(plan, ReplicaId(1), kValues, {input, {}}, average).value();
    frame = session->next_frame(1, FrameKind::kContribution).value();
  }
  OutgoingMessage message(bool cross_memory, EntropyCoder* coder = nullptr) {
    return message_of(*session, frame, {cross_memory, coder}, pins);
  }

  std::vector<float> input, average;
  std::unique_ptr<ReduceSession> session;
  FrameRef frame;
  wire::SlicePins pins;
};

std::vector<float> values_of(const ReceivedFrame& frame) {
  std::vector<std::byte> bytes;
  for (const auto& piece : frame.payload()) bytes.insert(bytes.end(), piece.begin(), piece.end());
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

const std::vector<float>& second_half() {
  static const std::vector<float> values = [] {
    const Sender sender(CodecKind::kFp32);
    return std::vector(sender.input.begin() + kValues / 2, sender.input.end());
  }();
  return values;
}

grpc::ByteBuffer raw(std::size_t size) {
  const std::vector<std::byte> bytes(size);
  const grpc::Slice slice(bytes.data(), bytes.size());
  return {&slice, 1};
}

TEST(FrameMessage, CarriesItsPayload) {
  Sender sender(CodecKind::kFp32);
  const OutgoingMessage message = sender.message(false);
  const auto frame = ReceivedFrame::read(message.bytes, FrameKind::kContribution);
  ASSERT_TRUE(frame.ok());
  EXPECT_FALSE(frame->must_fetch());
  EXPECT_FALSE(frame->header().cross_memory);
  EXPECT_EQ(frame->size(), message.size);
  EXPECT_EQ(values_of(*frame), second_half());
}

TEST(FrameMessage, ByReferenceItCostsAsMuchAndIsFetched) {
  Sender sender(CodecKind::kFp32);
  const wire::ReadableMemory readable;
  const auto memory = wire::PeerMemory::open(getpid(), readable.token());
  ASSERT_TRUE(memory);
  const OutgoingMessage message = sender.message(true);
  EXPECT_EQ(message.bytes.Length(), kReferenceSize);
  EXPECT_EQ(sender.pins.out(), 0);
  auto frame = ReceivedFrame::read(message.bytes, FrameKind::kContribution);
  ASSERT_TRUE(frame.ok());
  EXPECT_TRUE(frame->must_fetch());
  EXPECT_TRUE(frame->header().cross_memory);
  EXPECT_EQ(frame->size(), message.size);
  ASSERT_TRUE(frame->fetch(*memory, std::vector<std::byte>(5000)).ok());  // of a larger frame
  EXPECT_FALSE(frame->must_fetch());
  EXPECT_EQ(values_of(*frame), second_half());
  EXPECT_EQ(frame->give_back().size(), 5000u);
}

TEST(FrameMessage, WhatIsEncodedIsNotSentByReference) {
  Sender sender(CodecKind::kInt8);
  const auto frame = ReceivedFrame::read(sender.message(true).bytes, FrameKind::kContribution);
  ASSERT_TRUE(frame.ok());
  EXPECT_FALSE(frame->must_fetch());
  EXPECT_TRUE(frame->header().cross_memory);  // averages may be
  EXPECT_TRUE(check_payload(frame->header(), frame->payload()).ok());
}

TEST(FrameMessage, EntropyCodedItIsSmallerAndIsExpanded) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kInt8}) {
    Sender sender(codec);
    EntropyCoder coder;
    const OutgoingMessage plain = sender.message(false), coded = sender.message(false, &coder);
    EXPECT_LT(coded.size, plain.size);
    EXPECT_EQ(coded.size, coded.bytes.Length() + kFramingSize);
    auto frame = ReceivedFrame::read(coded.bytes, FrameKind::kContribution);
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(frame->size(), coded.size);
    ASSERT_TRUE(frame->must_expand());
    ASSERT_TRUE(frame->expand(coder, std::vector<std::byte>(5000)).ok());  // of a larger frame
    EXPECT_FALSE(frame->must_expand());
    EXPECT_TRUE(check_payload(frame->header(), frame->payload()).ok());
    const auto sent = ReceivedFrame::read(plain.bytes, FrameKind::kContribution);
    EXPECT_EQ(values_of(*frame), values_of(*sent));
    EXPECT_EQ(frame->give_back().size(), 5000u);
  }
}

TEST(FrameMessage, WhatIsSentByReferenceIsNotEntropyCoded) {
  Sender sender(CodecKind::kFp32);
  EntropyCoder coder;
  EXPECT_EQ(sender.message(true, &coder).bytes.Length(), kReferenceSize);
}

TEST(FrameMessage, RefusesWhatIsNoFrameOfItsStream) {
  const auto refused = [](const grpc::ByteBuffer& bytes, FrameKind kind) {
    return !ReceivedFrame::read(bytes, kind).ok();
  };
  EXPECT_TRUE(refused(raw(3), FrameKind::kContribution));
  EXPECT_TRUE(refused(raw(100), FrameKind::kContribution));
  Sender sender(CodecKind::kFp32);
  for (const bool cross_memory : {false, true}) {
    EXPECT_TRUE(refused(sender.message(cross_memory).bytes, FrameKind::kAverage));
  }
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(sender.message(true).bytes.Dump(&slices).ok());
  slices.emplace_back("more");
  EXPECT_TRUE(refused({slices.data(), slices.size()}, FrameKind::kContribution));
  slices.pop_back();
  EXPECT_FALSE(refused({slices.data(), slices.size()}, FrameKind::kContribution));
}

}  // namespace
}  // namespace shoal::outer_opt
