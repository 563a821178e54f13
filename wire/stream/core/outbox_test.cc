// The sending half: turns, credit, and when memory is free again.
#include "wire/stream/core/outbox.h"

#include <gtest/gtest.h>

namespace shoal::wire::stream {
namespace {

constexpr std::uint32_t kMuch = 1 << 30;

struct Sent {
  int done = 0, dropped = 0;
  OutMessage message(std::span<const std::byte> body, std::size_t head = 0) {
    return {std::vector<std::byte>(head), {body}, [this](bool sent) { sent ? ++done : ++dropped; }};
  }
};

const std::vector<std::byte> kBody(3 * kPieceBytes);
std::span<const std::byte> body(std::size_t size) { return std::span(kBody).first(size); }

TEST(Outbox, StreamsTakeTurnsPieceByPiece) {
  Outbox outbox(8);
  Sent sent;
  outbox.add(1, kMuch, true);
  outbox.add(3, kMuch, true);
  ASSERT_TRUE(outbox.send(1, sent.message(body(2 * kPieceBytes))).ok());
  ASSERT_TRUE(outbox.send(3, sent.message(body(kPieceBytes + 1))).ok());
  std::vector<StreamId> turns;
  std::vector<std::uint32_t> bodies;
  while (auto frame = outbox.next(true)) {
    turns.push_back(frame->header.stream);
    bodies.push_back(frame->header.body());
    Outbox::let_go(*frame);
  }
  EXPECT_EQ(turns, (std::vector<StreamId>{1, 3, 1, 3}));
  EXPECT_EQ(bodies, (std::vector<std::uint32_t>{kPieceBytes, kPieceBytes, kPieceBytes, 1}));
  EXPECT_EQ(sent.done, 2);
}

TEST(Outbox, ABodyOfSeveralParts) {
  Outbox outbox(8);
  outbox.add(1, kMuch, true);
  const std::span<const std::byte> all(kBody);
  OutMessage message{std::vector<std::byte>(5),
                     {all.subspan(0, 10), all.subspan(10, 0), all.subspan(10, kPieceBytes)},
                     nullptr};
  ASSERT_TRUE(outbox.send(1, std::move(message)).ok());
  auto first = outbox.next(true), second = outbox.next(true);
  ASSERT_TRUE(first && second);
  const auto parts = first->payload();
  ASSERT_EQ(parts.size(), 3);  // the head, and no part that is empty
  EXPECT_EQ(parts[0].size(), 5);
  EXPECT_EQ(parts[1].data(), kBody.data());
  EXPECT_EQ(parts[2].size(), kPieceBytes - 10);
  const auto rest = second->payload();
  ASSERT_EQ(rest.size(), 2);
  EXPECT_EQ(rest[1].data(), kBody.data() + kPieceBytes);
  EXPECT_EQ(rest[1].size(), 10);
}

TEST(Outbox, NothingIsSentBeyondTheCredit) {
  Outbox outbox(8);
  Sent sent;
  outbox.add(1, kPieceBytes + kMessageCost, true);
  ASSERT_TRUE(outbox.send(1, sent.message(body(2 * kPieceBytes))).ok());
  EXPECT_TRUE(outbox.next(true));
  EXPECT_FALSE(outbox.next(true));
  ASSERT_TRUE(outbox.add_credit(1, kPieceBytes - 1).ok());
  EXPECT_FALSE(outbox.next(true));
  ASSERT_TRUE(outbox.add_credit(1, 1).ok());
  EXPECT_TRUE(outbox.next(true));
  EXPECT_FALSE(outbox.add_credit(1, ~std::uint32_t{0}).ok());
  EXPECT_TRUE(outbox.add_credit(5, 1).ok());  // a stream that is over
}

TEST(Outbox, AStreamThatThePeerMayNotKnowTakesTheFirstLane) {
  Outbox outbox(8);
  Sent sent;
  outbox.add(1, kMuch, false);
  ASSERT_TRUE(outbox.send(1, sent.message(body(2 * kPieceBytes))).ok());
  EXPECT_FALSE(outbox.next(false));
  EXPECT_TRUE(outbox.next(true));
  outbox.peer_knows(1);
  EXPECT_TRUE(outbox.next(false));
}

TEST(Outbox, TheQueueHasABound) {
  Outbox outbox(2);
  Sent sent;
  outbox.add(1, kMuch, true);
  EXPECT_TRUE(outbox.send(1, sent.message(body(1))).ok());
  EXPECT_TRUE(outbox.send(1, sent.message(body(1))).ok());
  const Status third = outbox.send(1, {{}, {body(1)}, nullptr});
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, Code::kResourceExhausted);
  EXPECT_FALSE(outbox.count_if_empty(1));
  outbox.next(true);
  outbox.next(true);
  EXPECT_EQ(outbox.count_if_empty(1), 2);
}

TEST(Outbox, MemoryIsFreeWhenNobodyHoldsAPiece) {
  Outbox outbox(8);
  Sent sent;
  outbox.add(1, kMuch, true);
  ASSERT_TRUE(outbox.send(1, sent.message(body(2 * kPieceBytes))).ok());
  ASSERT_TRUE(outbox.send(1, sent.message(body(1))).ok());
  auto held = outbox.next(true);
  outbox.remove(1);
  EXPECT_EQ(sent.dropped, 1);  // the one of which nothing was taken
  Outbox::let_go(*held);
  EXPECT_EQ(sent.dropped, 2);
  EXPECT_EQ(sent.done, 0);
  EXPECT_FALSE(outbox.next(true));
}

TEST(Outbox, AMessageWithoutABodyIsAFrame) {
  Outbox outbox(8);
  Sent sent;
  outbox.add(1, kMuch, true);
  ASSERT_TRUE(outbox.send(1, sent.message({}, 3)).ok());
  auto frame = outbox.next(true);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->header.length, 3);
  EXPECT_EQ(frame->payload().size(), 1);
  EXPECT_FALSE(outbox.next(true));
  Outbox::let_go(*frame);
  EXPECT_EQ(sent.done, 1);
}

}  // namespace
}  // namespace shoal::wire::stream
