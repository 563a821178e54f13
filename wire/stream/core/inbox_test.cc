// The receiving half: order, windows, and what a peer may not do.
#include "wire/stream/core/inbox.h"

#include <deque>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::wire::stream {
namespace {

constexpr std::uint32_t kWindow = 8 * kPieceBytes;

class Memory : public StreamEvents {
 public:
  bool wants = true;
  int placed = 0;
  std::optional<std::span<std::byte>> place(std::span<const std::byte>, std::size_t size) override {
    ++placed;
    if (!wants) return std::nullopt;
    return std::span(bodies_.emplace_back(size));
  }
  void arrived(std::span<const std::byte>, std::span<std::byte>) override {}
  void ended() override {}
  void closed(const std::optional<Error>&) override {}

 private:
  std::deque<std::vector<std::byte>> bodies_;
};

FrameHeader piece(std::uint32_t message, std::uint32_t size, std::uint32_t offset = 0) {
  return {FrameType::kData, 0, piece_size(size, offset), 1, message, size, offset};
}

struct Receiver {
  Memory memory;
  Inbox inbox{kWindow};
  // The field that is refused; "" when the piece has landed, "unwanted" without a place.
  std::string take(const FrameHeader& header, std::string_view head = "") {
    const auto place = inbox.place(header, std::as_bytes(std::span(head)), memory);
    if (!place.ok()) return place.error().field;
    if (!*place) return "unwanted";
    EXPECT_EQ((*place)->size(), header.body());
    inbox.landed(header);
    return "";
  }
};

TEST(Inbox, MessagesLeaveInTheirOrder) {
  Receiver receiver;
  EXPECT_EQ(receiver.take(piece(1, 10)), "");
  EXPECT_FALSE(receiver.inbox.take());
  EXPECT_EQ(receiver.take(piece(0, 20)), "");
  EXPECT_EQ(receiver.inbox.take()->body.size(), 20);
  EXPECT_EQ(receiver.inbox.take()->body.size(), 10);
  EXPECT_FALSE(receiver.inbox.take());
}

TEST(Inbox, PiecesComeInAnyOrder) {
  Receiver receiver;
  constexpr std::uint32_t kSize = 2 * kPieceBytes + 5;
  for (const std::uint32_t offset : {2 * kPieceBytes, 0u, kPieceBytes}) {
    EXPECT_FALSE(receiver.inbox.take());
    EXPECT_EQ(receiver.take(piece(0, kSize, offset), "head"), "");
  }
  EXPECT_EQ(receiver.memory.placed, 1);
  const auto message = receiver.inbox.take();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->body.size(), kSize);
  EXPECT_EQ(message->head.size(), 4);
}

TEST(Inbox, TheLargestMessageHasABitForEachPiece) {
  Memory memory;
  Inbox inbox(2 * kMessageMax);
  for (std::uint32_t offset = 0; offset < kMessageMax; offset += kPieceBytes) {
    EXPECT_FALSE(inbox.take());
    const FrameHeader header = piece(0, kMessageMax, offset);
    ASSERT_TRUE(inbox.place(header, {}, memory).ok());
    inbox.landed(header);
  }
  EXPECT_TRUE(inbox.take());
}

TEST(Inbox, RefusesAPeerThatContradictsItself) {
  Receiver receiver;
  EXPECT_EQ(receiver.take(piece(0, 2 * kPieceBytes), "a"), "");
  EXPECT_EQ(receiver.take(piece(0, 2 * kPieceBytes), "a"), "frame.offset");
  EXPECT_EQ(receiver.take(piece(0, 2 * kPieceBytes, kPieceBytes), "b"), "frame.size");
  EXPECT_EQ(receiver.take(piece(0, 2 * kPieceBytes - 1, kPieceBytes), "a"), "frame.size");
  EXPECT_EQ(receiver.take(piece(0, 2 * kPieceBytes, kPieceBytes), "a"), "");
  EXPECT_TRUE(receiver.inbox.take());
  EXPECT_EQ(receiver.take(piece(0, 10)), "frame.message");
  EXPECT_EQ(receiver.take(piece(kWindow, 10)), "frame.message");
}

TEST(Inbox, TheWindowHolds) {
  Receiver receiver;
  std::uint32_t sent = 0;
  for (std::string field; field.empty(); ++sent) {
    field = receiver.take(piece(sent, kPieceBytes));
    if (!field.empty()) {
      EXPECT_EQ(field, "frame.size");
    }
  }
  EXPECT_EQ(sent, 8);  // seven fit with their costs, the eighth is refused
}

TEST(Inbox, WhatHasNoSizeCostsToo) {
  Receiver receiver;
  std::uint32_t sent = 0;
  while (receiver.take(piece(sent, 0)).empty()) ++sent;
  EXPECT_EQ(sent, kWindow / kMessageCost);
}

TEST(Inbox, ReleasedBytesAreGrantedInQuarters) {
  Receiver receiver;
  std::uint64_t granted = 0;
  constexpr std::uint64_t kRounds = 100, kCost = kPieceBytes + kMessageCost;
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    ASSERT_EQ(receiver.take(piece(i, kPieceBytes)), "");
    ASSERT_TRUE(receiver.inbox.take());
    const std::uint32_t credit = receiver.inbox.release(kPieceBytes);
    EXPECT_TRUE(credit == 0 || credit >= kWindow / 4);
    granted += credit;
  }
  EXPECT_GT(granted, kRounds * kCost - kWindow / 4);
  EXPECT_LE(granted, kRounds * kCost);
}

TEST(Inbox, MoreIsReleasedThanArrived) {
  Receiver receiver;
  EXPECT_DEATH((void)receiver.inbox.release(1), "more was released");
}

TEST(Inbox, EndsAfterWhatWasCounted) {
  Receiver receiver;
  EXPECT_EQ(receiver.take(piece(1, 10)), "");
  EXPECT_FALSE(receiver.inbox.end_after(1).ok());  // message 1 was sent
  EXPECT_TRUE(receiver.inbox.end_after(2).ok());
  EXPECT_FALSE(receiver.inbox.ended());
  EXPECT_EQ(receiver.take(piece(2, 10)), "frame.message");
  EXPECT_EQ(receiver.take(piece(0, 10)), "");
  EXPECT_TRUE(receiver.inbox.take() && receiver.inbox.take());
  EXPECT_TRUE(receiver.inbox.ended());
  EXPECT_FALSE(receiver.inbox.end_after(2).ok());  // twice
}

TEST(Inbox, AnUnwantedMessageHasNoPlace) {
  Receiver receiver;
  receiver.memory.wants = false;
  EXPECT_EQ(receiver.take(piece(0, 10)), "unwanted");
}

// Whatever headers a peer makes up, it gets no more memory than its window.
TEST(Inbox, TenThousandHeadersOfALiar) {
  Prng prng(7);
  Receiver receiver;
  int refused = 0, landed = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto size = static_cast<std::uint32_t>(prng.below(3 * kPieceBytes));
    const auto pieces = size == 0 ? 1 : (size - 1) / kPieceBytes + 1;
    const auto offset = static_cast<std::uint32_t>(prng.below(pieces)) * kPieceBytes;
    const auto message = static_cast<std::uint32_t>(prng.below(400));
    receiver.take(piece(message, size, offset)).empty() ? ++landed : ++refused;
    while (const auto taken = receiver.inbox.take())
      (void)receiver.inbox.release(taken->body.size());
  }
  EXPECT_GT(refused, 5'000);
  EXPECT_GT(landed, 5);
}

}  // namespace
}  // namespace shoal::wire::stream
