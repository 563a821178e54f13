// Two ends of a pair, joined in memory by connections of which any may be slow.
#include "wire/stream/core/mux.h"

#include <array>
#include <cstring>
#include <deque>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::wire::stream {
namespace {

constexpr Quotas kQuotas{kPieceBytes * 2, kPieceBytes * 4, 4, 8, 64};

// A user who keeps what arrives and releases it at once, or not.
struct User : StreamEvents {
  Mux* mux = nullptr;
  StreamId id = 0;
  bool holds = false, refuses = false;
  std::function<void()> on_arrived;
  std::deque<std::vector<std::byte>> bodies;
  std::vector<std::vector<std::byte>> messages;
  std::vector<std::string> heads;
  bool has_ended = false, is_closed = false;
  std::optional<Error> error;

  std::optional<std::span<std::byte>> place(std::span<const std::byte>, std::size_t size) override {
    EXPECT_FALSE(is_closed);
    if (refuses) return std::nullopt;
    return std::span(bodies.emplace_back(size));
  }
  void arrived(std::span<const std::byte> head, std::span<std::byte> body) override {
    EXPECT_FALSE(has_ended || is_closed);
    heads.emplace_back(reinterpret_cast<const char*>(head.data()), head.size());
    messages.emplace_back(body.begin(), body.end());
    if (!holds) mux->release(id, body.size());
    if (on_arrived) on_arrived();
  }
  void ended() override { has_ended = true; }
  void closed(const std::optional<Error>& why) override {
    EXPECT_FALSE(is_closed);
    is_closed = true;
    error = why;
  }
};

// A frame as it travels: nothing of its sender's memory.
struct Traveling {
  HeaderBytes header;
  std::vector<std::byte> payload;
};

struct End {
  Mux mux;
  std::vector<std::shared_ptr<User>> users;  // of streams that the other end opened
  std::function<void(User&)> prepare;
  bool accepts = true;
  int detached = 0;

  explicit End(Side side)
      : mux(side, kQuotas,
            {[this](StreamId id, std::string_view) { return accept(id); },
             [this](StreamId) { ++detached; }, [] {}}) {
    mux.meet({{}, 0, 1, kQuotas.message_max, kQuotas.window, kQuotas.streams_max});
  }
  std::shared_ptr<StreamEvents> accept(StreamId id) {
    if (!accepts) return nullptr;
    auto user = std::make_shared<User>();
    user->mux = &mux;
    user->id = id;
    if (prepare) prepare(*user);
    users.push_back(user);
    return user;
  }
  std::shared_ptr<User> open(std::string_view purpose = "test") {
    auto user = std::make_shared<User>();
    user->mux = &mux;
    const auto id = mux.open(purpose, user);
    EXPECT_TRUE(id.ok());
    if (id.ok()) user->id = *id;
    return user;
  }
};

// The pair, with `lanes` connections each way.
struct Joined {
  std::array<End, 2> ends = {End(Side::kDialer), End(Side::kAcceptor)};
  std::array<std::vector<std::deque<Traveling>>, 2> lanes;  // from each end
  std::optional<Error> breach;

  explicit Joined(std::size_t count = 1) { lanes[0].resize(count), lanes[1].resize(count); }
  End& dialer() { return ends[0]; }
  End& acceptor() { return ends[1]; }

  bool load(std::size_t from, std::size_t lane) {
    auto frame = ends[from].mux.next(lane == 0);
    if (!frame) return false;
    Traveling traveling{encode(frame->header), {}};
    for (const auto& part : frame->payload()) {
      traveling.payload.insert(traveling.payload.end(), part.begin(), part.end());
    }
    EXPECT_EQ(traveling.payload.size(), frame->header.length);
    Outbox::let_go(*frame);
    lanes[from][lane].push_back(std::move(traveling));
    return true;
  }
  bool deliver(std::size_t from, std::size_t lane) {
    auto& queue = lanes[from][lane];
    if (queue.empty()) return false;
    const Traveling frame = std::move(queue.front());
    queue.pop_front();
    const Status good = receive(ends[1 - from].mux, frame);
    if (!good) breach = good.error();
    return true;
  }
  static Status receive(Mux& mux, const Traveling& frame) {
    const auto header = parse_header(frame.header, kQuotas.message_max);
    if (!header.ok()) return header.error();
    const std::span<const std::byte> all(frame.payload);
    if (header->type != FrameType::kData) return mux.control(*header, all);
    const auto place = mux.begin(*header, all.first(header->head));
    if (!place.ok()) return place.error();
    if (!*place) return {};
    const auto body = all.subspan(header->head);
    std::copy(body.begin(), body.end(), (*place)->begin());
    return mux.landed(*header);
  }
  // Until nothing moves any more, connections in a random order.
  void run(std::uint64_t seed = 1) {
    Prng prng(seed);
    for (int idle = 0; idle < 1000 && !breach;) {
      const std::size_t from = prng.below(2), lane = prng.below(lanes[0].size());
      const bool moved = prng.chance(0.5) ? load(from, lane) : deliver(from, lane);
      idle = moved ? 0 : idle + 1;
    }
    EXPECT_FALSE(breach) << to_string(*breach);
  }
};

std::vector<std::byte> body_of(std::size_t size, int seed) {
  std::vector<std::byte> body(size);
  for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<std::byte>((i / 97 + seed) & 0xff);
  return body;
}

OutMessage message(const std::vector<std::byte>& body) { return {{}, {body}, nullptr}; }

// Its memory is read until the connection has the piece: a stream that closed before would let its
// user free it.
TEST(Mux, TheLastPieceIsWithItsConnectionBeforeTheStreamCloses) {
  Joined joined;
  const auto ours = joined.dialer().open();
  joined.dialer().mux.end(ours->id);
  joined.run();
  const auto theirs = joined.acceptor().users.at(0);
  ASSERT_TRUE(theirs->has_ended);
  const auto body = body_of(1000, 1);
  Mux& mux = joined.acceptor().mux;
  ASSERT_TRUE(mux.send(theirs->id, message(body)).ok());
  mux.end(theirs->id);
  auto data = mux.next(true);
  ASSERT_TRUE(data && data->header.type == FrameType::kData);
  EXPECT_FALSE(theirs->is_closed);
  EXPECT_EQ(joined.acceptor().detached, 0);
  Outbox::let_go(*data);
  const auto end = mux.next(true);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->header.type, FrameType::kEnd);
  EXPECT_TRUE(theirs->is_closed);
}

TEST(Mux, BothEndsOpenStreams) {
  Joined pair;
  const auto body = body_of(1000, 1);
  const auto one = pair.dialer().open(), other = pair.acceptor().open();
  EXPECT_EQ(one->id % 2, 1);
  EXPECT_EQ(other->id % 2, 0);
  ASSERT_TRUE(pair.dialer().mux.send(one->id, message(body)).ok());
  ASSERT_TRUE(pair.acceptor().mux.send(other->id, message(body)).ok());
  pair.run();
  for (End& end : pair.ends) {
    ASSERT_EQ(end.users.size(), 1);
    ASSERT_EQ(end.users[0]->messages.size(), 1);
    EXPECT_EQ(end.users[0]->messages[0], body);
  }
}

TEST(Mux, AStreamEndsWhenBothHaveEnded) {
  Joined pair;
  const auto body = body_of(2 * kPieceBytes, 1);
  const auto user = pair.dialer().open();
  ASSERT_TRUE(pair.dialer().mux.send(user->id, message(body)).ok());
  pair.dialer().mux.end(user->id);
  EXPECT_EQ(pair.dialer().mux.send(user->id, message(body)).error().code, Code::kCancelled);
  pair.run();
  User& peer = *pair.acceptor().users.at(0);
  EXPECT_TRUE(peer.has_ended && !peer.is_closed && !user->is_closed);
  ASSERT_TRUE(pair.acceptor().mux.send(peer.id, message(body)).ok());
  pair.acceptor().mux.end(peer.id);
  pair.run();
  EXPECT_EQ(user->messages.size(), 1);
  EXPECT_TRUE(user->has_ended && user->is_closed && peer.is_closed);
  EXPECT_FALSE(user->error || peer.error);
  EXPECT_EQ(pair.dialer().mux.open_streams(), 0);
}

// Any number of connections, any order: what is sent arrives once, whole and in order.
TEST(Mux, FramesMayTakeAnyConnection) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Joined pair(1 + seed % 5);
    std::vector<std::vector<std::byte>> bodies;
    for (int i = 0; i < 8; ++i) bodies.push_back(body_of(i * 65'001 % kQuotas.message_max, i));
    const auto one = pair.dialer().open(), two = pair.acceptor().open();
    for (const auto& body : bodies) {
      ASSERT_TRUE(pair.dialer().mux.send(one->id, message(body)).ok());
      ASSERT_TRUE(pair.acceptor().mux.send(two->id, message(body)).ok());
    }
    pair.dialer().mux.end(one->id);
    pair.acceptor().mux.end(two->id);
    pair.run(seed);
    for (End& end : pair.ends) {
      ASSERT_EQ(end.users.size(), 1) << seed;
      EXPECT_EQ(end.users[0]->messages, bodies) << seed;
      EXPECT_TRUE(end.users[0]->has_ended) << seed;
    }
  }
}

TEST(Mux, ACancelReachesTheOtherEndAndSaysWhy) {
  Joined pair(2);
  const auto body = body_of(kQuotas.message_max, 1);
  const auto user = pair.dialer().open();
  int dropped = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pair.dialer()
                    .mux.send(user->id, {{}, {body}, [&](bool sent) { dropped += sent ? 0 : 1; }})
                    .ok());
  }
  pair.load(0, 0);
  pair.load(0, 0);
  pair.dialer().mux.cancel(user->id, {Code::kDeadlineExceeded, "too late", "", ""});
  EXPECT_TRUE(user->is_closed);
  EXPECT_EQ(dropped, 3);
  EXPECT_EQ(pair.dialer().detached, 1);
  pair.run();
  User& peer = *pair.acceptor().users.at(0);
  ASSERT_TRUE(peer.error);
  EXPECT_EQ(peer.error->code, Code::kDeadlineExceeded);
  EXPECT_EQ(peer.error->message, "too late");
  EXPECT_TRUE(peer.messages.empty());
}

// Data that was on its way when the receiver cancelled belongs to nobody.
TEST(Mux, TheReceiverCancels) {
  Joined pair;
  const auto body = body_of(100, 1);
  const auto user = pair.dialer().open();
  ASSERT_TRUE(pair.dialer().mux.send(user->id, message(body)).ok());
  while (pair.load(0, 0)) {
  }
  pair.deliver(0, 0);  // the frame that opens it
  User& peer = *pair.acceptor().users.at(0);
  pair.acceptor().mux.cancel(peer.id, {Code::kCancelled, "enough", "", ""});
  pair.run();
  EXPECT_TRUE(peer.messages.empty());
  ASSERT_TRUE(user->error);
  EXPECT_EQ(user->error->message, "enough");
}

TEST(Mux, AUserWhoCancelsWhileHeIsTold) {
  Joined pair;
  const auto body = body_of(10, 1);
  pair.acceptor().prepare = [&](User& user) {
    user.on_arrived = [&user] { user.mux->cancel(user.id, {Code::kCancelled, "enough", "", ""}); };
  };
  const auto user = pair.dialer().open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pair.dialer().mux.send(user->id, message(body)).ok());
  pair.run();
  EXPECT_EQ(pair.acceptor().users.at(0)->messages.size(), 1);
  EXPECT_TRUE(user->is_closed);
}

TEST(Mux, AMessageThatNobodyWants) {
  Joined pair;
  const auto body = body_of(10, 1);
  pair.acceptor().prepare = [](User& user) { user.refuses = true; };
  const auto user = pair.dialer().open();
  ASSERT_TRUE(pair.dialer().mux.send(user->id, message(body)).ok());
  pair.run();
  ASSERT_TRUE(user->error);
  EXPECT_EQ(user->error->code, Code::kInvalidArgument);
}

TEST(Mux, WhoDoesNotReleaseGetsNoMoreThanTheWindow) {
  Joined pair;
  const auto body = body_of(kPieceBytes, 1);
  pair.acceptor().prepare = [](User& user) { user.holds = true; };
  const auto user = pair.dialer().open();
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(pair.dialer().mux.send(user->id, message(body)).ok());
  pair.run();
  User& peer = *pair.acceptor().users.at(0);
  EXPECT_EQ(peer.messages.size(), 3);  // of a window of four pieces, with their costs
  for (std::size_t released = 0; released < peer.messages.size(); ++released) {
    pair.acceptor().mux.release(peer.id, kPieceBytes);
    pair.run();
  }
  EXPECT_EQ(peer.messages.size(), 8);
}

TEST(Mux, ARefusedStreamSaysWhy) {
  Joined pair;
  pair.acceptor().accepts = false;
  const auto user = pair.dialer().open();
  pair.run();
  ASSERT_TRUE(user->error);
  EXPECT_EQ(user->error->code, Code::kNotFound);
}

TEST(Mux, StreamsHaveAQuota) {
  Joined pair;
  std::vector<std::shared_ptr<User>> users;
  for (std::uint32_t i = 0; i < kQuotas.streams_max; ++i) users.push_back(pair.dialer().open());
  const auto user = std::make_shared<User>();
  EXPECT_EQ(pair.dialer().mux.open("one more", user).error().code, Code::kResourceExhausted);
  pair.run();
  pair.dialer().mux.cancel(users[0]->id, {Code::kCancelled, "", "", ""});
  pair.run();
  EXPECT_TRUE(pair.dialer().mux.open("again", user).ok());
}

TEST(Mux, WhatThePeerDoesNotTakeIsNotSent) {
  Joined pair;
  const auto user = pair.dialer().open();
  const std::vector<std::byte> body(kQuotas.message_max + 1);
  bool sent = true;
  const Status refused = pair.dialer().mux.send(user->id, {{}, {body}, [&](bool s) { sent = s; }});
  EXPECT_EQ(refused.error().code, Code::kValidation);
  EXPECT_FALSE(sent);
  EXPECT_FALSE(pair.dialer().mux.open(std::string(kTextMax + 1, 'x'), user).ok());
}

TEST(Mux, WithThePairEveryStreamIsOver) {
  Joined pair;
  const auto one = pair.dialer().open(), two = pair.dialer().open();
  pair.dialer().mux.fail({Code::kUnavailable, "the peer is gone", "", ""});
  EXPECT_TRUE(one->is_closed && two->is_closed);
  EXPECT_EQ(one->error->code, Code::kUnavailable);
  EXPECT_FALSE(pair.dialer().mux.open("late", one).ok());
  EXPECT_FALSE(pair.dialer().mux.next(true));
}

// ---- what a peer may not do

FrameHeader header(FrameType type, StreamId stream) { return {type, 0, 0, stream}; }

TEST(Mux, BreachesEndThePair) {
  const auto field = [](const FrameHeader& frame) {
    End end(Side::kAcceptor);
    EXPECT_TRUE(end.mux.control(header(FrameType::kOpen, 3), {}).ok());
    if (frame.type == FrameType::kData) {
      const auto place = end.mux.begin(frame, {});
      return place.ok() ? std::string() : place.error().field;
    }
    const Status good = end.mux.control(frame, {});
    return good.ok() ? std::string() : good.error().field;
  };
  EXPECT_EQ(field(header(FrameType::kOpen, 3)), "frame.stream");  // again
  EXPECT_EQ(field(header(FrameType::kOpen, 1)), "frame.stream");  // an older one
  EXPECT_EQ(field(header(FrameType::kOpen, 2)), "frame.stream");  // one of ours
  EXPECT_EQ(field(header(FrameType::kEnd, 5)), "frame.stream");   // of none
  EXPECT_EQ(field(header(FrameType::kData, 5)), "frame.stream");
  EXPECT_EQ(field(header(FrameType::kAccept, 2)), "frame.stream");
  EXPECT_EQ(field({FrameType::kHello, 0, 0, 3}), "frame.type");
  FrameHeader credit = header(FrameType::kCredit, 3);
  credit.size = ~std::uint32_t{0};
  EXPECT_EQ(field(credit), "frame.size");
  EXPECT_EQ(field(header(FrameType::kCancel, 1)), "");  // it is over, which nobody minds
}

TEST(Mux, WhoAsksAndDoesNotReadIsGivenUp) {
  End end(Side::kAcceptor);
  Status good;
  for (StreamId id = 1; good.ok() && id < 1000; id += 2) {
    good = end.mux.control(header(FrameType::kOpen, id), {});
    if (good.ok()) good = end.mux.control(header(FrameType::kCancel, id), {});
  }
  ASSERT_FALSE(good.ok());
  EXPECT_EQ(good.error().code, Code::kResourceExhausted);
}

// Frames that nobody damaged, in an order that nobody meant, and damaged ones between them.
TEST(Mux, TenThousandFramesOfALiar) {
  Prng prng(33);
  int breaches = 0;
  for (int run = 0; run < 500; ++run) {
    End end(Side::kAcceptor);
    (void)end.mux.control(header(FrameType::kOpen, 1), {});
    for (int i = 0; i < 20; ++i) {
      FrameHeader frame{static_cast<FrameType>(prng.below(7)), 0, 0,
                        static_cast<StreamId>(prng.below(6)),
                        static_cast<std::uint32_t>(prng.below(4))};
      frame.size = static_cast<std::uint32_t>(prng.below(2 * kPieceBytes));
      if (frame.type == FrameType::kData) {
        frame.length = piece_size(frame.size, 0);
      } else if (frame.type != FrameType::kCredit) {
        frame.size = 0;
      }
      if (frame.type != FrameType::kData && frame.type != FrameType::kEnd) frame.message = 0;
      const std::vector<std::byte> payload(frame.length);
      const Status good = Joined::receive(end.mux, {encode(frame), payload});
      while (end.mux.next(true)) {
      }
      if (good.ok()) continue;
      EXPECT_NE(good.error().code, Code::kInternal);
      ++breaches;
      break;
    }
    end.mux.fail({Code::kUnavailable, "", "", ""});
    for (const auto& user : end.users) EXPECT_TRUE(user->is_closed);
  }
  EXPECT_GT(breaches, 400);
}

TEST(Quotas, AreChecked) {
  const auto field = [](const Quotas& quotas) {
    const Status good = check_quotas(quotas);
    return good.ok() ? std::string() : good.error().field;
  };
  EXPECT_EQ(field({}), "");
  EXPECT_EQ(field({.message_max = 1}), "quotas.message_max");
  EXPECT_EQ(field({.message_max = kMessageMax + 1}), "quotas.message_max");
  EXPECT_EQ(field({.window = kMessageMax}), "quotas.window");
  EXPECT_EQ(field({.streams_max = 0}), "quotas.streams_max");
  EXPECT_EQ(field({.queue_max = 0}), "quotas.queue_max");
  EXPECT_EQ(field({.words_max = 1}), "quotas.words_max");
}

}  // namespace
}  // namespace shoal::wire::stream
