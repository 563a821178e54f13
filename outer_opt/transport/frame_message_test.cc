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
    return message_of(*session, frame, {cross_memory, coder}, {});
  }

  std::vector<float> input, average;
  std::unique_ptr<ReduceSession> session;
  FrameRef frame;
};

// The message as the other end receives it.
Result<ReceivedFrame> received(const OutgoingMessage& message,
                               FrameKind kind = FrameKind::kContribution) {
  auto frame = ReceivedFrame::read(message.head, message.body.size(), kind);
  if (frame.ok()) frame->take_body({message.body.begin(), message.body.end()});
  return frame;
}

std::vector<float> values_of(const ReceivedFrame& frame) {
  const auto bytes = frame.payload();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

bool is_whole(const ReceivedFrame& frame) {
  const std::span<const std::byte> pieces[] = {frame.payload()};
  return check_payload(frame.header(), pieces).ok();
}

const std::vector<float>& second_half() {
  static const std::vector<float> values = [] {
    const Sender sender(CodecKind::kFp32);
    return std::vector(sender.input.begin() + kValues / 2, sender.input.end());
  }();
  return values;
}

TEST(FrameMessage, CarriesItsPayload) {
  Sender sender(CodecKind::kFp32);
  const OutgoingMessage message = sender.message(false);
  const auto frame = received(message);
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
  EXPECT_EQ(message.head.size(), kReferenceSize);
  EXPECT_TRUE(message.body.empty());
  auto frame = received(message);
  ASSERT_TRUE(frame.ok());
  EXPECT_TRUE(frame->must_fetch());
  EXPECT_TRUE(frame->header().cross_memory);
  EXPECT_EQ(frame->size(), message.size);
  ASSERT_TRUE(frame->fetch(*memory, Buffer(5000)).ok());  // of a larger frame
  EXPECT_FALSE(frame->must_fetch());
  EXPECT_EQ(values_of(*frame), second_half());
  EXPECT_EQ(frame->give_back().at(0).size(), 5000u);
}

// The pool would lose it otherwise, one with each frame.
TEST(FrameMessage, ABufferThatIsNotNeededComesBack) {
  Sender sender(CodecKind::kFp32);
  for (const bool cross_memory : {false, true}) {
    const OutgoingMessage message =
        message_of(*sender.session, sender.frame, {cross_memory, nullptr}, Buffer(5000));
    EXPECT_EQ(message.buffer.size(), 5000u) << cross_memory;
  }
}

TEST(FrameMessage, WhatIsEncodedIsNotSentByReference) {
  Sender sender(CodecKind::kInt8);
  const auto frame = received(sender.message(true));
  ASSERT_TRUE(frame.ok());
  EXPECT_FALSE(frame->must_fetch());
  EXPECT_TRUE(frame->header().cross_memory);  // averages may be
  EXPECT_TRUE(is_whole(*frame));
}

TEST(FrameMessage, EntropyCodedItIsSmallerAndIsExpanded) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kInt8}) {
    Sender sender(codec);
    EntropyCoder coder;
    const OutgoingMessage plain = sender.message(false), coded = sender.message(false, &coder);
    EXPECT_LT(coded.size, plain.size);
    EXPECT_EQ(coded.size, message_size(coded.head.size(), coded.body.size()));
    auto frame = received(coded);
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(frame->size(), coded.size);
    ASSERT_TRUE(frame->must_expand());
    ASSERT_TRUE(frame->expand(coder, Buffer(5000)).ok());  // of a larger frame
    EXPECT_FALSE(frame->must_expand());
    EXPECT_TRUE(is_whole(*frame));
    const auto sent = received(plain);
    EXPECT_EQ(values_of(*frame), values_of(*sent));
    EXPECT_EQ(frame->give_back().at(1).size(), 5000u);
  }
}

TEST(FrameMessage, WhatIsSentByReferenceIsNotEntropyCoded) {
  Sender sender(CodecKind::kFp32);
  EntropyCoder coder;
  EXPECT_EQ(sender.message(true, &coder).head.size(), kReferenceSize);
}

// Each piece of 256 KiB has a header of 28 bytes and the head.
TEST(FrameMessage, AMessageCostsTheHeadersOfItsPieces) {
  EXPECT_EQ(message_size(40, 0), 68u);
  EXPECT_EQ(message_size(40, 1), 69u);
  EXPECT_EQ(message_size(40, 256 << 10), 68u + (256u << 10));
  EXPECT_EQ(message_size(40, (256 << 10) + 1), 2 * 68u + (256u << 10) + 1);
}

TEST(FrameMessage, RefusesWhatIsNoFrameOfItsStream) {
  const auto refused = [](std::span<const std::byte> head, std::size_t body,
                          FrameKind kind = FrameKind::kContribution) {
    return !ReceivedFrame::read(head, body, kind).ok();
  };
  EXPECT_TRUE(refused({}, 0));
  EXPECT_TRUE(refused(std::vector<std::byte>(3), 0));
  EXPECT_TRUE(refused(std::vector<std::byte>(kFrameHeaderSize), 100));
  Sender sender(CodecKind::kFp32);
  EntropyCoder coder;
  const OutgoingMessage plain = sender.message(false), reference = sender.message(true),
                        coded = sender.message(false, &coder);
  for (const OutgoingMessage* message : {&plain, &reference, &coded}) {
    EXPECT_FALSE(refused(message->head, message->body.size()));
    EXPECT_TRUE(refused(message->head, message->body.size(), FrameKind::kAverage));
  }
  EXPECT_TRUE(refused(plain.head, plain.body.size() - 1));
  EXPECT_TRUE(refused(plain.head, plain.body.size() + 1));
  EXPECT_TRUE(refused(reference.head, 1));  // a reference that a payload follows
  EXPECT_TRUE(refused(coded.head, 0));
  EXPECT_TRUE(refused(coded.head, plain.body.size() + 1));
}

}  // namespace
}  // namespace shoal::outer_opt
