// Members of a reduce over TLS: who shows what certificate, and who is refused for it.
#include "outer_opt/transport/peer_identity.h"

#include <gtest/gtest.h>

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
  auto first = swarm.start(0);  // dials, or is dialled in vain until it has one
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  identify(swarm, cluster, 0);
  const ReduceResult one = first.get(), other = second.get();
  // Who dialled the one that had none yet has lost it, and tries again in the next attempt.
  if (!one.ok || !other.ok) {
    ++swarm.plan.attempt;
    expect_equal(swarm, swarm.reduce_all());
  }
}

// Whoever shows the certificate of another replica, job or epoch is lost to the others.
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

// Of one host and one user: they could read each other's memory in any case.
TEST(PeerIdentity, ProcessesOfOneHostNeedNone) {
  Swarm swarm(2, 20'001, CodecKind::kInt8, {}, Topology::kButterfly, {.certificates = true});
  expect_equal(swarm, swarm.reduce_all());
}

}  // namespace
}  // namespace shoal::outer_opt
