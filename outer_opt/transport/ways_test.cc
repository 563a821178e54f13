// How replicas reach each other where some cannot be dialed: real nodes with certificates, and
// real relays. A hidden node says an address of this host on which nothing listens.
#include "outer_opt/transport/ways.h"

#include <thread>

#include <gtest/gtest.h>

#include "outer_opt/transport/reduce_test_util.h"
#include "outer_opt/transport/stream_servers.h"
#include "wire/relay/relay.h"
#include "wire/stream/stream_test_util.h"

namespace shoal::outer_opt {
namespace {

using wire::relay::Relay;
using wire::stream::eventually;
using wire::stream::TestCluster;

constexpr char kNobodyHere[] = "127.9.9.9";

WaysOptions quick() {
  WaysOptions options;
  options.lent_limit = options.name_limit = milliseconds(300);
  options.wait.backoff_first = milliseconds(20);
  options.wait.backoff_max = milliseconds(100);
  return options;
}

std::unique_ptr<Relay> start_relay(const TestCluster& cluster) {
  auto relay = Relay::start({}, cluster.name(), cluster.trust(), [] { return wire::stream::kNow; });
  EXPECT_TRUE(relay.ok()) << to_string(relay.error());
  return std::move(*relay);
}

std::shared_ptr<const PeerIdentity> identity_of(const TestCluster& cluster, std::uint64_t n) {
  const auto own = cluster.credentials(n);
  return std::make_shared<const PeerIdentity>(
      PeerIdentity{cluster.name(), cluster.replica(n), cluster.contexts_of(own), own});
}

// A replica: serves ways, and answers "echo" streams with nothing but their end.
class Member {
 public:
  Member(const TestCluster& cluster, std::uint64_t n, bool is_hidden,
         const std::vector<std::string>& relays, WaysOptions options = quick(),
         bool local_sockets = false)
      : cluster_(cluster), n_(n) {
    const auto who = identity_of(cluster, n);
    wire::stream::NodeOptions node_options;
    if (is_hidden) node_options.advertise_host = kNobodyHere;
    node_options.tls = who->contexts;
    node_options.local_sockets = local_sockets;
    auto node = wire::stream::Node::start(
        node_options,
        [this](std::shared_ptr<wire::stream::Stream> stream, std::string_view purpose) {
          return accept(std::move(stream), std::string(purpose));
        });
    EXPECT_TRUE(node.ok());
    node_ = std::move(*node);
    ways_ = std::make_shared<Ways>(*node_, options);
    ways_->set_identity(who, false);
    ways_->set_relays(relays);
  }
  ~Member() {
    servers_.stop();
    ways_->close();
    node_.reset();
  }

  PeerAddress address() const { return {ReplicaId(n_), node_->address()}; }
  Ways& ways() { return *ways_; }
  bool waits_at(std::size_t relays) {
    return eventually([&] { return ways_->waits_at() == relays; });
  }
  wire::stream::DialOptions to(const PeerAddress& peer, int lanes = 1) const {
    return {.address = peer.address, .expected = cluster_.exactly(peer.replica.n), .lanes = lanes};
  }
  Result<Reached> reach(const PeerAddress& peer, bool keeps = false, int lanes = 1) {
    std::promise<Result<Reached>> told;
    ways_->reach(peer, to(peer, lanes), keeps,
                 [&](Result<Reached> reached) { told.set_value(std::move(reached)); });
    return told.get_future().get();
  }
  Result<Reached> reach(const Member& peer, bool keeps = false, int lanes = 1) {
    return reach(peer.address(), keeps, lanes);
  }

 private:
  std::shared_ptr<wire::stream::StreamEvents> accept(std::shared_ptr<wire::stream::Stream> stream,
                                                     const std::string& purpose) {
    const auto pair = stream->pair();
    return servers_.take(std::move(stream), [this, pair, purpose](wire::stream::BlockingStream&) {
      return purpose == "echo" ? Status() : ways_->serve(pair, purpose);
    });
  }

  const TestCluster& cluster_;
  const std::uint64_t n_;
  StreamServers servers_{8, 64};
  std::shared_ptr<Ways> ways_;
  std::unique_ptr<wire::stream::Node> node_;
};

void expect_way(const Result<Reached>& reached, PeerWay way, std::uint64_t whom,
                const TestCluster& cluster) {
  ASSERT_TRUE(reached.ok()) << to_string(reached.error());
  EXPECT_EQ(to_string(reached->way), to_string(way));
  EXPECT_EQ(reached->pair->peer(), cluster.name_of(whom));
  const auto stream =
      wire::stream::BlockingStream::open(*reached->pair, "echo", wire::stream::kLimit);
  stream->end();
  EXPECT_TRUE(stream->finish(seconds(10)).ok());
}

TEST(Ways, WhoeverCanBeDialedIsDialed) {
  const TestCluster cluster;
  const auto relay = start_relay(cluster);
  Member one(cluster, 1, false, {relay->address()}), two(cluster, 2, false, {relay->address()});
  ASSERT_TRUE(one.waits_at(1) && two.waits_at(1));
  expect_way(one.reach(two), PeerWay::kDirect, 2, cluster);
  expect_way(two.reach(one, true, 3), PeerWay::kDirect, 1, cluster);
  EXPECT_EQ(relay->counts().joined_total, 0u);
  EXPECT_EQ(relay->counts().bytes_total, 0u);
}

TEST(Ways, APairThatThePeerDialedIsUsed) {
  const TestCluster cluster;
  Member open(cluster, 1, false, {}), hidden(cluster, 2, true, {});
  expect_way(hidden.reach(open, true), PeerWay::kDirect, 1, cluster);
  const auto reached = open.reach(hidden, true);
  expect_way(reached, PeerWay::kReverse, 2, cluster);
  EXPECT_TRUE(reached->is_lent);
  EXPECT_FALSE(reached->pair->has_dialed());
}

// Two members begin at the same time.
TEST(Ways, APairThatIsAboutToComeIsWaitedFor) {
  const TestCluster cluster;
  Member open(cluster, 1, false, {}), hidden(cluster, 2, true, {});
  auto first = std::async(std::launch::async, [&] { return open.reach(hidden, true); });
  expect_way(hidden.reach(open, true), PeerWay::kDirect, 1, cluster);
  expect_way(first.get(), PeerWay::kReverse, 2, cluster);
}

TEST(Ways, WhoeverCannotBeDialedIsAskedToDial) {
  const TestCluster cluster;
  const auto relay = start_relay(cluster);
  Member open(cluster, 1, false, {relay->address()}), hidden(cluster, 2, true, {relay->address()});
  ASSERT_TRUE(hidden.waits_at(1));
  const auto reached = open.reach(hidden, false, 2);
  expect_way(reached, PeerWay::kReverse, 2, cluster);
  EXPECT_FALSE(reached->is_lent);
  EXPECT_TRUE(eventually([&] { return reached->pair->lanes() == 2; }));
  EXPECT_TRUE(eventually([&] { return relay->counts().joined == 0; }));
  EXPECT_LT(relay->counts().bytes_total, 20'000u);  // two handshakes and a word
}

TEST(Ways, WhereNeitherCanBeDialedARelayCarries) {
  const TestCluster cluster;
  const auto relay = start_relay(cluster);
  Member one(cluster, 1, true, {relay->address()}), two(cluster, 2, true, {relay->address()});
  ASSERT_TRUE(one.waits_at(1) && two.waits_at(1));
  const auto reached = one.reach(two, true, 3);
  expect_way(reached, PeerWay::kRelayed, 2, cluster);
  EXPECT_TRUE(eventually([&] { return reached->pair->lanes() == 3; }));
  expect_way(two.reach(one), PeerWay::kRelayed, 1, cluster);
}

TEST(Ways, AnotherRelayTakesOver) {
  const TestCluster cluster;
  std::vector<std::unique_ptr<Relay>> relays;
  std::vector<std::string> addresses;
  for (int i = 0; i < 3; ++i) {
    relays.push_back(start_relay(cluster));
    addresses.push_back(relays.back()->address());
  }
  Member one(cluster, 1, true, addresses), two(cluster, 2, true, addresses);
  ASSERT_TRUE(one.waits_at(2) && two.waits_at(2));
  const auto reached = one.reach(two, true);
  expect_way(reached, PeerWay::kRelayed, 2, cluster);
  for (auto& relay : relays) {
    if (relay->counts().joined > 0) relay.reset();
  }
  EXPECT_TRUE(eventually([&] { return reached->pair->is_over(); }));
  expect_way(one.reach(two, true), PeerWay::kRelayed, 2, cluster);
  // The relay that is gone is not announced any more: there are two left, and one waits at both.
  std::erase_if(addresses, [&](const std::string& address) {
    return std::ranges::none_of(relays,
                                [&](const auto& r) { return r && r->address() == address; });
  });
  ASSERT_EQ(addresses.size(), 2u);
  two.ways().set_relays(addresses);
  EXPECT_TRUE(two.waits_at(2));
}

TEST(Ways, WhatFailedIsTriedAgainInTheBackground) {
  const TestCluster cluster;
  const auto relay = start_relay(cluster);
  WaysOptions options = quick();
  options.again = milliseconds(100);
  Member one(cluster, 1, true, {relay->address()}, options);
  Member two(cluster, 2, false, {relay->address()}, options);
  ASSERT_TRUE(two.waits_at(1));
  const PeerAddress wrong{ReplicaId(2), one.address().address};
  expect_way(one.reach(wrong), PeerWay::kRelayed, 2, cluster);
  EXPECT_TRUE(one.ways().is_best(wrong, one.to(wrong), PeerWay::kRelayed));
  const PeerAddress right = two.address();
  EXPECT_TRUE(
      eventually([&] { return !one.ways().is_best(right, one.to(right), PeerWay::kRelayed); }));
  expect_way(one.reach(right), PeerWay::kDirect, 2, cluster);
}

// Two private networks may use the same addresses.
TEST(Ways, AnAddressOfSomebodyElseIsNone) {
  const TestCluster cluster;
  const auto relay = start_relay(cluster);
  Member one(cluster, 1, true, {relay->address()}), two(cluster, 2, true, {relay->address()});
  Member other(cluster, 3, false, {});
  ASSERT_TRUE(two.waits_at(1));
  const PeerAddress same{ReplicaId(2), other.address().address};
  expect_way(one.reach(same), PeerWay::kRelayed, 2, cluster);
}

TEST(Ways, AProcessOfThisHostIsAskedWhoItIs) {
  const TestCluster cluster;
  const auto relay = start_relay(cluster);
  const std::vector<std::string> relays = {relay->address()};
  Member one(cluster, 1, true, relays, quick(), true), other(cluster, 3, true, {}, quick(), true);
  Member two(cluster, 2, true, relays);
  ASSERT_TRUE(two.waits_at(1));
  const auto near = one.reach(other);
  ASSERT_TRUE(near.ok()) << to_string(near.error());
  EXPECT_EQ(near->way, PeerWay::kDirect);
  EXPECT_TRUE(near->pair->is_local());
  for (const PeerAddress& address : {other.address(), one.address()}) {
    expect_way(one.reach({ReplicaId(2), address.address}), PeerWay::kRelayed, 2, cluster);
  }
}

// Its peers may hear of a replica before its certificate is issued.
TEST(Ways, AProcessOfThisHostMayLearnItsNameALittleLater) {
  const TestCluster cluster;
  Member one(cluster, 1, false, {}, {}, true), other(cluster, 3, false, {}, {}, true);
  other.ways().set_identity(identity_of(cluster, 9), true);
  const std::jthread issue([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    other.ways().set_identity(identity_of(cluster, 3), true);
  });
  const auto reached = one.reach(other);
  ASSERT_TRUE(reached.ok()) << to_string(reached.error());
  EXPECT_TRUE(reached->pair->is_local());
}

TEST(Ways, WhoeverCannotBeReachedIsNamed) {
  const TestCluster cluster;
  const auto relay = start_relay(cluster);
  Member one(cluster, 1, true, {}), two(cluster, 2, true, {});
  const auto alone = one.reach(two, true);
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().code, Code::kUnavailable);
  EXPECT_NE(alone.error().message.find(two.address().address), std::string::npos);
  one.ways().set_relays({relay->address()});
  const auto absent = one.reach(two, true);
  ASSERT_FALSE(absent.ok());
  EXPECT_NE(absent.error().message.find(relay->address()), std::string::npos);
}

TEST(Ways, AnotherReplicaWaitsUnderItsOwnNumber) {
  const TestCluster cluster;
  const auto relay = start_relay(cluster);
  Member one(cluster, 1, true, {relay->address()}), two(cluster, 2, true, {relay->address()});
  ASSERT_TRUE(two.waits_at(1));
  two.ways().set_identity(identity_of(cluster, 7), true);
  EXPECT_TRUE(
      eventually([&] { return relay->counts().waiting == 2 && two.ways().waits_at() == 1; }));
  EXPECT_FALSE(one.reach({ReplicaId(2), two.address().address}).ok());
}

TEST(Ways, TheOrderOfRelaysFollowsFromTheReplica) {
  std::vector<std::string> relays;
  for (int i = 0; i < 8; ++i) relays.push_back("relay" + std::to_string(i) + ":7200");
  auto turned = relays;
  std::ranges::reverse(turned);
  std::map<std::string, int> first;
  for (std::uint64_t n = 1; n <= 800; ++n) {
    const auto order = relays_of(ReplicaId(n), relays);
    EXPECT_EQ(order, relays_of(ReplicaId(n), turned));
    ++first[order.front()];
  }
  for (const std::string& relay : relays) EXPECT_GT(first[relay], 50) << relay;
}

// ---- a reduce

// One node that can be dialed, and two that cannot.
class Sites {
 public:
  Sites() : relay_(start_relay(cluster_)) {
    for (std::size_t i = 0; i < 3; ++i) {
      PeerNodeOptions options;
      options.advertise_host = i == 0 ? "" : kNobodyHere;
      options.local_sockets = false;
      options.certificates = true;
      options.ways = quick();
      auto node = PeerNode::start(options);
      EXPECT_TRUE(node.ok());
      swarm.nodes[i] = std::move(*node);
      swarm.plan.members[i].address = swarm.nodes[i]->address();
      swarm.nodes[i]->set_identity(identity_of(cluster_, i + 1));
      swarm.nodes[i]->set_relays({relay_->address()});
    }
    for (const auto& node : swarm.nodes) {
      EXPECT_TRUE(eventually([&] { return node->waits_at() == 1; }));
    }
  }
  std::map<ReplicaId, std::string> ways_of(std::size_t i) {
    std::map<ReplicaId, std::string> ways;
    for (const LinkEstimate& link : swarm.nodes[i]->take_links()) {
      ways[link.peer] = to_string(link.way);
    }
    return ways;
  }

 private:
  TestCluster cluster_;
  std::unique_ptr<Relay> relay_;

 public:
  Swarm swarm{3, 20'001, CodecKind::kInt8};
};

TEST(WaysOfAReduce, MembersThatCannotBeDialedAverage) {
  Sites sites;
  for (int round = 1; round <= 3; ++round) {
    sites.swarm.plan.key.round = round;
    expect_equal(sites.swarm, sites.swarm.reduce_all());
  }
  using Ways = std::map<ReplicaId, std::string>;
  EXPECT_EQ(sites.ways_of(0), (Ways{{ReplicaId(2), "reverse"}, {ReplicaId(3), "reverse"}}));
  EXPECT_EQ(sites.ways_of(1), (Ways{{ReplicaId(1), "direct"}, {ReplicaId(3), "relayed"}}));
  EXPECT_EQ(sites.ways_of(2), (Ways{{ReplicaId(1), "direct"}, {ReplicaId(2), "relayed"}}));
}

// What the sources of a state are asked, and what measures a line, goes the same ways.
TEST(WaysOfAReduce, LinesAreMeasuredOverARelay) {
  Sites sites;
  sites.swarm.nodes[1]->measure(ReplicaId(2), {{ReplicaId(3), sites.swarm.nodes[2]->address()}});
  std::vector<LinkEstimate> links;
  EXPECT_TRUE(eventually([&] {
    for (const auto& link : sites.swarm.nodes[1]->take_links()) links.push_back(link);
    return !links.empty();
  }));
  ASSERT_EQ(links.size(), 1u);
  EXPECT_TRUE(links[0].reached);
  EXPECT_EQ(links[0].way, PeerWay::kRelayed);
  EXPECT_GT(links[0].to_per_s, 0);
}

}  // namespace
}  // namespace shoal::outer_opt
