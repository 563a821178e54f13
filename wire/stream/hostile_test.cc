// Peers that do not keep the rules: who connects and says nothing, too many at once, and bytes that
// nobody meant.
#include <array>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "wire/stream/stream_test_util.h"
#include "wire/tcp_socket.h"

namespace shoal::wire::stream {
namespace {

constexpr int kPatienceMs = 20'000;

// A connection by hand.
class Raw {
 public:
  explicit Raw(const std::string& address) : fd_(begin_connect(address)) {
    pollfd wait{fd_, POLLOUT, 0};
    EXPECT_EQ(poll(&wait, 1, kPatienceMs), 1);
  }
  ~Raw() { close(fd_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void send(std::span<const std::byte> bytes) const {
    (void)::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);  // it may have been closed
  }
  void send(const FrameHeader& header, std::span<const std::byte> payload = {}) const {
    const HeaderBytes bytes = encode(header);
    send(bytes);
    send(payload);
  }
  void say_hello(PairId pair, std::uint16_t lane = 0, std::uint16_t lanes = 1) const {
    const Hello hello{pair, lane, lanes, kMessageMax, 2 * kMessageMax, 64};
    send({FrameType::kHello, 0, kHelloBytes}, encode(hello));
  }
  // Reads until the other end closes. False: it does not.
  bool is_closed() const {
    std::array<std::byte, 4096> bytes;
    for (;;) {
      pollfd wait{fd_, POLLIN, 0};
      if (poll(&wait, 1, kPatienceMs) != 1) return false;
      const auto got = recv(fd_, bytes.data(), bytes.size(), 0);
      if (got <= 0) return true;
    }
  }
  bool hears_something() const {
    pollfd wait{fd_, POLLIN, 0};
    std::byte byte;
    return poll(&wait, 1, kPatienceMs) == 1 && recv(fd_, &byte, 1, MSG_PEEK) == 1;
  }

 private:
  const int fd_;
};

NodeOptions plain() { return {.local_sockets = false}; }

TEST(Hostile, WhoSaysNothingIsSentAway) {
  NodeOptions options = plain();
  options.handshake_limit = milliseconds(50);
  Host server(options);
  const Raw silent(server.node().address());
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(eventually([&] { return server.node().refusals()[RefusalReason::kLimits] == 1; }));
}

TEST(Hostile, HandshakesHaveAQuotaPerHost) {
  NodeOptions options = plain();
  options.handshakes_per_host_max = 3;
  Host server(options);
  const std::string address = server.node().address();
  const Raw one(address), two(address), three(address);
  const Raw late(address);
  EXPECT_TRUE(late.is_closed());
  EXPECT_TRUE(eventually([&] { return server.node().refusals()[RefusalReason::kLimits] == 1; }));
  one.say_hello({1, 1});  // it leaves the handshake, and another one may come
  EXPECT_TRUE(one.hears_something());
  const Raw next(address);
  next.say_hello({1, 2});
  EXPECT_TRUE(next.hears_something());
}

TEST(Hostile, PairsHaveAQuotaPerPeer) {
  NodeOptions options = plain();
  options.pairs_per_peer_max = 2;
  Host server(options);
  const std::string address = server.node().address();
  const Raw one(address), two(address), three(address), same(address);
  one.say_hello({1, 1});
  EXPECT_TRUE(one.hears_something());
  same.say_hello({1, 1});  // the name of a pair that stands
  EXPECT_TRUE(same.is_closed());
  two.say_hello({1, 2});
  EXPECT_TRUE(two.hears_something());
  three.say_hello({1, 3});
  EXPECT_TRUE(three.is_closed());
}

TEST(Hostile, AFurtherConnectionNeedsItsPair) {
  Host server(plain());
  const std::string address = server.node().address();
  const Raw stray(address);
  stray.say_hello({9, 9}, 1, 2);
  EXPECT_TRUE(stray.is_closed());
  const Raw first(address), second(address), again(address);
  first.say_hello({1, 1}, 0, 2);
  EXPECT_TRUE(first.hears_something());
  second.say_hello({1, 1}, 1, 2);
  EXPECT_TRUE(second.hears_something());
  again.say_hello({1, 1}, 1, 2);
  EXPECT_TRUE(again.is_closed());
}

TEST(Hostile, ABreachEndsThePairAndItsStreams) {
  Host server(plain());
  const Raw liar(server.node().address());
  liar.say_hello({1, 1});
  liar.send({FrameType::kOpen, 0, 0, 1});
  const auto user = server.accepted();
  ASSERT_TRUE(user);
  liar.send({FrameType::kData, 0, 10, 1, 0, 20, 0});  // a piece that is shorter than it should be
  EXPECT_TRUE(liar.is_closed());
  ASSERT_TRUE(user->wait_closed());
  EXPECT_EQ(user->error()->field, "frame.length");
  EXPECT_EQ(server.node().refusals()[RefusalReason::kMalformed], 1);
}

// A peer that sends half a message and disconnects leaves nothing behind.
TEST(Hostile, HalfAMessage) {
  Host server(plain());
  std::shared_ptr<Recorder> user;
  {
    const Raw peer(server.node().address());
    peer.say_hello({1, 1});
    peer.send({FrameType::kOpen, 0, 0, 1});
    user = server.accepted();
    ASSERT_TRUE(user);
    const std::vector<std::byte> half(50);
    peer.send({FrameType::kData, 0, 100, 1, 0, 100, 0}, half);
  }
  ASSERT_TRUE(user->wait_closed());
  EXPECT_TRUE(user->messages().empty());
  EXPECT_EQ(user->error()->code, Code::kUnavailable);
}

// Conversations of good frames, damaged somewhere: the node always lives, and takes the next.
TEST(Hostile, ThreeHundredDamagedConversations) {
  NodeOptions options = plain();
  options.handshake_limit = milliseconds(100);
  options.beat = milliseconds(20);
  options.handshakes_max = options.handshakes_per_host_max = options.pairs_per_peer_max = 1000;
  Host server(options);
  Prng prng(77);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> bytes;
    const auto add = [&](const FrameHeader& header, std::span<const std::byte> payload) {
      const HeaderBytes head = encode(header);
      bytes.insert(bytes.end(), head.begin(), head.end());
      bytes.insert(bytes.end(), payload.begin(), payload.end());
    };
    const Hello hello{{1, static_cast<std::uint64_t>(i)}, 0, 1, kMessageMax, 2 * kMessageMax, 64};
    add({FrameType::kHello, 0, kHelloBytes}, encode(hello));
    add({FrameType::kOpen, 0, 0, 1}, {});
    const std::vector<std::byte> body(300);
    add({FrameType::kData, 10, 300, 1, 0, 290, 0}, body);
    for (std::uint64_t damage = 1 + prng.below(4); damage > 0; --damage) {
      bytes[prng.below(bytes.size())] = static_cast<std::byte>(prng.below(256));
    }
    const Raw peer(server.node().address());
    peer.send(std::span<const std::byte>(bytes).first(prng.below(bytes.size()) + 1));
  }
  Host client(plain());
  const auto pair = client.dial({.address = server.node().address()});
  ASSERT_TRUE(pair.ok()) << to_string(pair.error());
}

}  // namespace
}  // namespace shoal::wire::stream
