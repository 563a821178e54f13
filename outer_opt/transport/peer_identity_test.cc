// Members of a reduce over TLS: who shows what certificate, and who is refused for it.
#include "outer_opt/transport/peer_identity.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "outer_opt/core/reduce/make_session.h"
#include "outer_opt/transport/reduce_link.h"
#include "outer_opt/transport/reduce_test_util.h"
#include "wire/stream/stream_test_util.h"

namespace shoal::outer_opt {
namespace {

using wire::stream::TestCluster;

constexpr NodeKind kHosts{.local_sockets = false, .certificates = true};

std::shared_ptr<const PeerIdentity> identity_of(const TestCluster& cluster,
                                                const identity::ReplicaName& who) {
  const auto own = cluster.credentials_of(who);
  return std::make_shared<const PeerIdentity>(
      PeerIdentity{cluster.name(), who, cluster.contexts_of(own), own});
}

void identify(Swarm& swarm, const TestCluster& cluster, std::size_t i) {
  swarm.nodes[i]->set_identity(identity_of(cluster, cluster.replica(i + 1)));
}

Swarm identified(const TestCluster& cluster, std::size_t n) {
  Swarm swarm(n, 20'001, CodecKind::kInt8, {}, Topology::kButterfly, kHosts);
  for (std::size_t i = 0; i < n; ++i) identify(swarm, cluster, i);
  return swarm;
}

TEST(PeerIdentity, MembersWithCertificatesAverage) {
  const TestCluster cluster;
  Swarm swarm = identified(cluster, 3);
  for (int round = 1; round <= 3; ++round) {
    swarm.plan.key.round = round;
    expect_equal(swarm, swarm.reduce_all());
    for (std::size_t i = 0; i < 3; ++i) identify(swarm, cluster, i);  // renewed
  }
}

TEST(PeerIdentity, ACertificateMayComeALittleLater) {
  const TestCluster cluster;
  Swarm swarm(2, 20'001, CodecKind::kInt8, {}, Topology::kButterfly, kHosts);
  identify(swarm, cluster, 1);
  auto second = swarm.start(1);
  auto first = swarm.start(0);  // dials, or is dialed in vain until it has one
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  identify(swarm, cluster, 0);
  const ReduceResult one = first.get(), other = second.get();
  // A replica that dialed one without a certificate has lost it, and tries again next time.
  if (!one.ok || !other.ok) {
    ++swarm.plan.attempt;
    expect_equal(swarm, swarm.reduce_all());
  }
}

// A replica that shows the certificate of another replica, job or epoch is lost to the others.
TEST(PeerIdentity, OnlyTheMemberThatThePlanNamesCounts) {
  const TestCluster cluster;
  const identity::ReplicaName right = cluster.replica(2);
  identity::ReplicaName other_replica = right, other_job = right, other_epoch = right;
  other_replica.replica = ReplicaId(7);
  other_job.job = JobId(2);
  other_epoch.epoch = 1;
  for (const auto& wrong : {other_replica, other_job, other_epoch}) {
    Swarm swarm = identified(cluster, 2);
    swarm.plan.time_limit = seconds(5);
    swarm.nodes[1]->set_identity(identity_of(cluster, wrong));
    auto results = swarm.reduce_all();
    EXPECT_FALSE(results[0].ok) << identity::to_string({cluster.name(), wrong});
    EXPECT_FALSE(results[1].ok) << identity::to_string({cluster.name(), wrong});
    swarm.nodes[1]->set_identity(identity_of(cluster, right));
    ++swarm.plan.attempt;
    swarm.plan.time_limit = seconds(30);
    expect_equal(swarm, swarm.reduce_all());
  }
}

TEST(PeerIdentity, AnotherClusterAndNobodyAreRefused) {
  const TestCluster cluster, foreign("atoll");
  Swarm swarm = identified(cluster, 2);
  swarm.plan.time_limit = seconds(5);
  swarm.nodes[1]->set_identity(identity_of(foreign, foreign.replica(2)));
  EXPECT_FALSE(swarm.reduce_all()[0].ok);
  swarm.nodes[1] = start_node({.local_sockets = false});  // speaks plainly
  swarm.plan.members[1].address = swarm.nodes[1]->address();
  ++swarm.plan.attempt;
  EXPECT_FALSE(swarm.reduce_all()[0].ok);
}

// A member that opens streams for rounds which nobody has announced pushes out its own only.
TEST(PeerIdentity, AHostilePeerDisplacesNobody) {
  constexpr std::int64_t kOpened = 60;
  const TestCluster cluster;
  Swarm swarm = identified(cluster, 2);
  wire::stream::Host hostile({.tls = cluster.contexts(9), .local_sockets = false});
  const auto pair = hostile.dial({.address = swarm.nodes[1]->address()});
  ASSERT_TRUE(pair.ok()) << to_string(pair.error());
  std::vector<std::shared_ptr<wire::stream::Recorder>> opened;
  const auto open_for = [&](std::int64_t round) {
    const StreamName name{ReplicaId(9), {{JobId(1), 0, round}, 1}, ""};
    opened.push_back(wire::stream::open(**pair, to_purpose(name)));
  };
  auto honest = swarm.start(0);  // for round 3, which the second is not told of yet
  EXPECT_EQ(honest.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  for (std::int64_t round = 4; round < kOpened; ++round) open_for(round);
  // Threads take them up side by side, so that the last four to be seen need not be these.
  const auto closed = [&] {
    return std::ranges::count_if(opened, [](const auto& stream) { return stream->is_closed(); });
  };
  EXPECT_TRUE(wire::stream::eventually([&] { return closed() >= std::ssize(opened) - 4; }));
  EXPECT_EQ(closed(), std::ssize(opened) - 4);
  const ReduceResult second = swarm.reduce(1);
  expect_equal(swarm, {honest.get(), second});
}

// Nor does it fill the memory of one that does not know its attempt.
TEST(PeerIdentity, AnEarlyStreamThatSaysTooMuchIsCancelled) {
  const TestCluster cluster;
  Swarm swarm = identified(cluster, 2);
  wire::stream::Host hostile({.tls = cluster.contexts(9), .local_sockets = false});
  const auto pair = hostile.dial({.address = swarm.nodes[1]->address()});
  ASSERT_TRUE(pair.ok()) << to_string(pair.error());
  const ReduceInput input{swarm.inputs[0], {}};
  auto session = make_session(swarm.plan, ReplicaId(1), kFrame, input, swarm.averages[0]).value();
  const auto frame = session->next_frame(1, FrameKind::kContribution).value();
  const OutgoingMessage message = message_of(*session, frame, {}, {});
  const auto say = [&](std::int64_t round, int frames) {
    const StreamName name{ReplicaId(9), {{JobId(1), 0, round}, 1}, ""};
    auto stream = wire::stream::open(**pair, to_purpose(name));
    for (int i = 0; i < frames; ++i) stream->stream->send({message.head, {message.body}, nullptr});
    return stream;
  };
  const auto modest = say(3, kEarlyFrames), greedy = say(4, kEarlyFrames + 1);
  EXPECT_TRUE(greedy->wait_closed());
  EXPECT_FALSE(modest->is_closed());
}

TEST(PeerIdentity, ARevokedAgentsReplicaIsTurnedAway) {
  const TestCluster cluster;
  Swarm swarm = identified(cluster, 3);
  expect_equal(swarm, swarm.reduce_all());
  for (const std::size_t i : {0u, 1u}) swarm.nodes[i]->revoke({AgentId(3)});
  ++swarm.plan.key.round;
  swarm.plan.time_limit = seconds(5);
  // An attempt may end by the pair that is gone, before the third one has dialed again.
  EXPECT_TRUE(wire::stream::eventually([&] {
    ++swarm.plan.attempt;
    for (const ReduceResult& result : swarm.reduce_all()) EXPECT_FALSE(result.ok);
    return swarm.nodes[0]->refusals()[RefusalReason::kRevoked] >= 1;
  }));
  swarm.nodes.pop_back();  // the others continue without it
  swarm.plan.members.pop_back();
  ++swarm.plan.attempt;
  swarm.plan.time_limit = seconds(30);
  assign_parts(swarm.plan, {1, 1});
  expect_equal(swarm, swarm.reduce_all());
}

// What a peer asks for in the name of another one is counted, and where it went wrong.
TEST(PeerIdentity, StreamsThatNobodyTakesAreCounted) {
  const TestCluster cluster;
  Swarm swarm = identified(cluster, 1);
  wire::stream::Host stranger({.tls = cluster.contexts(9), .local_sockets = false});
  const auto pair = stranger.dial({.address = swarm.nodes[0]->address()});
  ASSERT_TRUE(pair.ok()) << to_string(pair.error());
  const auto refused = [&](const std::string& purpose, RefusalReason as) {
    const RefusalCounts before = swarm.nodes[0]->refusals();
    EXPECT_TRUE(wire::stream::open(**pair, purpose)->wait_closed());
    return swarm.nodes[0]->refusals().since(before)[as] == 1;
  };
  EXPECT_TRUE(refused("everything", RefusalReason::kMalformed));
  EXPECT_TRUE(
      refused(to_purpose({ReplicaId(1), {{JobId(1), 0, 3}, 1}, ""}), RefusalReason::kOtherMember));
  EXPECT_TRUE(
      refused(to_purpose({ReplicaId(9), {{JobId(1), 4, 3}, 1}, ""}), RefusalReason::kOtherMember));
}

// A stream ends when both ends have said all; what it sends last must stay until then.
TEST(PeerIdentity, TheLastFramesOverTcpStayWhole) {
  const TestCluster cluster;
  for (int i = 0; i < 20; ++i) {
    Swarm plain(3, 20'001, CodecKind::kInt8, {}, Topology::kButterfly, {.local_sockets = false});
    expect_equal(plain, plain.reduce_all());
    Swarm encrypted = identified(cluster, 3);
    expect_equal(encrypted, encrypted.reduce_all());
  }
}

// Processes of one host and one user, which could read each other's memory in any case.
TEST(PeerIdentity, ProcessesOfOneHostNeedNone) {
  Swarm swarm(2, 20'001, CodecKind::kInt8, {}, Topology::kButterfly, {.certificates = true});
  expect_equal(swarm, swarm.reduce_all());
}

}  // namespace
}  // namespace shoal::outer_opt
