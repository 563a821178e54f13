// Streams over a relay: two nodes that nobody can dial, TLS between them, and the relay in between.
#include <gtest/gtest.h>

#include "wire/relay/relay_test_util.h"

namespace shoal::wire::relay {
namespace {

using stream::Host;

// A node without a port that waits at a relay.
class Hidden {
 public:
  Hidden(const TestCluster& cluster, std::uint64_t n, const std::string& relay)
      : own_(cluster.credentials(n)),
        host_({.bind = "", .tls = cluster.contexts_of(own_)}),
        waiter_(std::make_shared<Waiter>(
            host_.node().io(),
            WaitOptions{.relay = relay,
                        .backoff_first = milliseconds(20),
                        .backoff_max = milliseconds(100)},
            [this] { return own_; }, n)) {
    net::post(host_.node().io(), [this] {
      waiter_->start([this](int fd) { host_.node().adopt(fd); },
                     [this](const Status& status) { waits_ = status.ok(); });
    });
  }
  ~Hidden() {
    std::promise<void> closed;
    net::post(host_.node().io(), [&] {
      waiter_->close();
      closed.set_value();
    });
    closed.get_future().wait();
  }
  bool waits() {
    return eventually([this] { return waits_.load(); });
  }
  Host& host() { return host_; }
  stream::DialOptions to(std::uint64_t whom, const std::string& relay, int lanes,
                         const identity::ExpectedPeer& expected) {
    const auto make = [this, relay, whom](net::io_context& io, Connected made) {
      call_over(
          io, relay, [this] { return own_; }, ReplicaId(whom), seconds(5), std::move(made));
    };
    return {.address = "rep_" + std::to_string(whom) + " over " + relay,
            .expected = expected,
            .lanes = lanes,
            .make = make};
  }

 private:
  const identity::Credentials own_;
  std::atomic<bool> waits_{false};
  Host host_;
  std::shared_ptr<Waiter> waiter_;
};

std::unique_ptr<Relay> start(const TestCluster& cluster) {
  auto relay = Relay::start({}, cluster.name(), cluster.trust(), [] { return kNow; });
  EXPECT_TRUE(relay.ok()) << to_string(relay.error());
  return std::move(*relay);
}

TEST(Nodes, StreamsPassOverARelay) {
  const TestCluster cluster;
  const auto relay = start(cluster);
  Hidden one(cluster, 1, relay->address()), two(cluster, 2, relay->address());
  ASSERT_TRUE(two.waits());
  const auto pair = one.host().dial(one.to(2, relay->address(), 3, cluster.exactly(2)));
  ASSERT_TRUE(pair.ok()) << to_string(pair.error());
  EXPECT_EQ((*pair)->peer(), cluster.name_of(2));
  const auto user = stream::open(**pair, "reduce");
  const std::string body = stream::pattern(3'000'000, 1);
  user->stream->send(stream::message_of("head", body));
  const auto peer = two.host().accepted();
  ASSERT_TRUE(peer && peer->wait_messages(1));
  EXPECT_TRUE(peer->messages()[0].body == body);
  EXPECT_EQ(peer->stream->pair()->peer(), cluster.name_of(1));
  const std::string answer = stream::pattern(2'000'000, 2);
  peer->stream->send(stream::message_of("back", answer));
  ASSERT_TRUE(user->wait_messages(1));
  EXPECT_TRUE(user->messages()[0].body == answer);
  EXPECT_TRUE(eventually([&] { return (*pair)->lanes() == 3; }));
  EXPECT_EQ(relay->counts().joined_total, 3u);
  EXPECT_GT(relay->counts().bytes_total, body.size() + answer.size());  // TLS adds to it
}

// The ends themselves verify what the relay connects them to.
TEST(Nodes, TheEndsLookAtEachOther) {
  const TestCluster cluster;
  const auto relay = start(cluster);
  Hidden one(cluster, 1, relay->address()), two(cluster, 2, relay->address());
  ASSERT_TRUE(two.waits());
  const auto other = one.host().dial(one.to(2, relay->address(), 1, cluster.exactly(3)));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, Code::kPermissionDenied);
  const auto nobody = one.host().dial(one.to(9, relay->address(), 1, cluster.exactly(9)));
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.error().code, Code::kNotFound);
  EXPECT_NE(nobody.error().message.find("rep_9"), std::string::npos);
}

TEST(Nodes, WithTheRelayThePairIsGone) {
  const TestCluster cluster;
  auto relay = start(cluster);
  Hidden one(cluster, 1, relay->address()), two(cluster, 2, relay->address());
  ASSERT_TRUE(two.waits());
  const auto pair = one.host().dial(one.to(2, relay->address(), 1, cluster.exactly(2)));
  ASSERT_TRUE(pair.ok());
  const auto user = stream::open(**pair, "reduce");
  const auto peer = two.host().accepted();
  ASSERT_TRUE(peer);
  relay.reset();
  EXPECT_TRUE(user->wait_closed());
  EXPECT_TRUE(peer->wait_closed());
  EXPECT_EQ(user->error()->code, Code::kUnavailable);
}

}  // namespace
}  // namespace shoal::wire::relay
