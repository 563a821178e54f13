#include "identity/peer.h"

#include "identity/identity_test_util.h"
#include "identity/openssl.h"

namespace shoal::identity {
namespace {

std::string error_of(const PeerVerdict& verdict, const ExpectedPeer& expected) {
  return to_string(to_error(verdict, expected));
}

TEST(VerifyPeer, TheRightOneIsBelieved) {
  const Cluster cluster;
  const Certificate own = cluster.agent();
  const PeerVerdict verdict = cluster.verify(own, cluster.any_agent());
  EXPECT_EQ(verdict.fault, PeerFault::kNone);
  EXPECT_EQ(verdict.name, (PeerName{cluster.name, AgentId(7)}));
  // With the CA's certificate or without it, and in any order.
  const Roots roots = cluster.ca.roots(kNoon);
  EXPECT_TRUE(verify_peer({own}, roots, {}, kNoon, cluster.any_agent()).ok());
  EXPECT_TRUE(verify_peer({own, Cluster("pond").ca.certificate(), cluster.ca.certificate()}, roots,
                          {}, kNoon, cluster.any_agent())
                  .ok());
}

TEST(VerifyPeer, CountsFromItsBeginningToItsEnd) {
  const Cluster cluster("reef", kNoon - days(2));
  const Certificate own = cluster.agent();
  const auto fault_at = [&](Instant now) {
    return cluster.verify(own, cluster.any_agent(), now).fault;
  };
  EXPECT_EQ(fault_at(own.not_before()), PeerFault::kNone);
  EXPECT_EQ(fault_at(own.not_before() - seconds(1)), PeerFault::kNotYetValid);
  EXPECT_EQ(fault_at(own.not_after() - seconds(1)), PeerFault::kNone);
  EXPECT_EQ(fault_at(own.not_after() + seconds(1)), PeerFault::kExpired);
}

TEST(VerifyPeer, AnExpiredOneSaysSinceWhen) {
  const Cluster cluster;
  const PeerVerdict verdict =
      cluster.verify(cluster.agent(), cluster.any_agent(), kNoon + days(1) + minutes(63));
  EXPECT_EQ(verdict.fault, PeerFault::kExpired);
  EXPECT_EQ(verdict.off_by, minutes(63));
  EXPECT_FALSE(verdict.is_about_ca);
  EXPECT_EQ(
      error_of(verdict, cluster.any_agent()),
      "certificate: the certificate of shoal://reef/agent/agt_7 expired 1 h 3 min ago by this "
      "host's clock (check this host's clock; if it is right, the other host must renew its "
      "certificate)");
}

TEST(VerifyPeer, AClockThatIsAnHourOffIsToldByName) {
  const Cluster cluster("reef", kNoon - days(2));
  const PeerVerdict verdict =
      cluster.verify(cluster.agent(), cluster.any_agent(), kNoon - hours(1));
  EXPECT_EQ(verdict.fault, PeerFault::kNotYetValid);
  EXPECT_EQ(verdict.off_by, hours(1));
  EXPECT_NE(
      error_of(verdict, cluster.any_agent()).find("clock is at least 1 h behind the coordinator's"),
      std::string::npos);
}

TEST(VerifyPeer, AnExpiredCaIsToldApart) {
  const Cluster cluster;
  const Certificate own = cluster.agent();
  const Instant end = cluster.ca.certificate().not_after();
  const Roots roots = {{cluster.ca.certificate(), end + days(9)}};
  const PeerVerdict verdict = verify_peer({own}, roots, {}, end + hours(1), cluster.any_agent());
  EXPECT_EQ(verdict.fault, PeerFault::kExpired);
  EXPECT_TRUE(verdict.is_about_ca);
  EXPECT_EQ(verdict.off_by, hours(1));
}

TEST(VerifyPeer, AForeignCaIsNamedBesideOurs) {
  const Cluster ours, theirs;  // of the same name, as an impostor would choose it
  const PeerVerdict verdict =
      verify_peer(theirs.shown(theirs.agent()), ours.ca.roots(kNoon), {}, kNoon, ours.any_agent());
  EXPECT_EQ(verdict.fault, PeerFault::kForeignCa);
  EXPECT_EQ(verdict.their_ca, theirs.ca.fingerprint());
  EXPECT_EQ(verdict.our_cas, std::vector<Hash256>{ours.ca.fingerprint()});
  const std::string text = error_of(verdict, ours.any_agent());
  EXPECT_NE(text.find(to_hex(ours.ca.fingerprint())), std::string::npos);
  EXPECT_NE(text.find(to_hex(theirs.ca.fingerprint())), std::string::npos);
  // It may also show none, or ours.
  const Certificate own = theirs.agent();
  EXPECT_EQ(verify_peer({own}, ours.ca.roots(kNoon), {}, kNoon, ours.any_agent()).fault,
            PeerFault::kForeignCa);
  EXPECT_EQ(ours.verify(own, ours.any_agent()).fault, PeerFault::kForeignCa);
  EXPECT_EQ(verify_peer({own}, {}, {}, kNoon, ours.any_agent()).fault, PeerFault::kForeignCa);
}

TEST(VerifyPeer, ACertificateThatSignedItselfIsForeign) {
  const Cluster cluster;
  const PrivateKey key = PrivateKey::make();
  CertificatePlan plan{.key = key.get(), .validity = {kNoon - hours(1), kNoon + hours(1)}};
  plan.common_name = "agt_7";
  plan.member = MemberPart{{cluster.name, AgentId(7)}, {}};
  EXPECT_EQ(cluster.verify(issue(plan, key), cluster.any_agent()).fault, PeerFault::kForeignCa);
}

TEST(VerifyPeer, AChangedOneIsFound) {
  const Cluster cluster;
  std::string der = cluster.agent().der();
  const std::size_t at = der.find("agt_7", der.find("shoal://"));
  ASSERT_NE(at, std::string::npos);
  der[at + 4] = '8';
  const PeerVerdict verdict = cluster.verify(*Certificate::from_der(der), cluster.any_agent());
  EXPECT_EQ(verdict.fault, PeerFault::kBadSignature);
  EXPECT_EQ(verdict.name, (PeerName{cluster.name, AgentId(8)}));  // what it claims
}

// An agent that signs with its own key what looks like a certificate.
TEST(VerifyPeer, AnAgentIsNoCa) {
  const Cluster cluster;
  const PrivateKey key = PrivateKey::make(), other = PrivateKey::make();
  const Certificate agent = *cluster.ca.issue_agent(request_of(key), AgentId(7), kNoon);
  CertificatePlan plan{.key = other.get(), .validity = {kNoon - hours(1), kNoon + hours(1)}};
  plan.common_name = "coordinator";
  plan.issuer = &agent;
  plan.member = MemberPart{{cluster.name, CoordinatorName()}, {}};
  const PeerVerdict verdict =
      verify_peer({issue(plan, key), agent, cluster.ca.certificate()}, cluster.ca.roots(kNoon), {},
                  kNoon, cluster.coordinator());
  EXPECT_FALSE(verdict.ok());
}

TEST(VerifyPeer, ACaIsNoMember) {
  const Cluster cluster;
  EXPECT_EQ(cluster.verify(cluster.ca.certificate(), cluster.any_agent()).fault,
            PeerFault::kWrongUse);
}

TEST(VerifyPeer, OneWithoutOurNameIsRefused) {
  const Cluster cluster;
  const PrivateKey key = PrivateKey::make();
  CertificatePlan plan{.key = key.get(), .validity = {kNoon - hours(1), kNoon + hours(1)}};
  plan.common_name = "agt_7";
  plan.issuer = &cluster.ca.certificate();
  const TemporaryFolder folder;  // the CA's key, as only the coordinator has it
  ASSERT_TRUE(cluster.ca.save(folder.file("ca")).ok());
  const PrivateKey ca_key = *PrivateKey::load(folder.file("ca"));
  EXPECT_EQ(cluster.verify(issue(plan, ca_key), cluster.any_agent()).fault, PeerFault::kMalformed);
}

// A given CA that is bound to its cluster, and still signs for another one.
TEST(VerifyPeer, ANameConstraintBindsItsCa) {
  Given given;
  given.permitted = "reef";
  const Authority ca = *given.authority();
  CertificatePlan plan{.key = given.key.get(), .validity = given.validity, .common_name = "agt_7"};
  plan.issuer = &ca.certificate();
  const ExpectedPeer agent{.cluster = {"reef"}, .kind = PeerKind::kAgent};
  plan.member = MemberPart{{{"reef"}, AgentId(7)}, {}};
  EXPECT_TRUE(verify_peer({issue(plan, given.key)}, ca.roots(kNoon), {}, kNoon, agent).ok());
  plan.member = MemberPart{{{"pond"}, AgentId(7)}, {}};
  EXPECT_EQ(verify_peer({issue(plan, given.key)}, ca.roots(kNoon), {}, kNoon, agent).fault,
            PeerFault::kOtherCluster);
}

// Two clusters under one given CA without a constraint.
TEST(VerifyPeer, AnotherClusterOfTheSameCaIsRefused) {
  const Given given;
  const auto reef = *given.authority("reef"), pond = *given.authority("pond");
  const Certificate own = *pond.issue_agent(request_of(PrivateKey::make()), AgentId(7), kNoon);
  const ExpectedPeer agent{.cluster = {"reef"}, .kind = PeerKind::kAgent};
  const PeerVerdict verdict = verify_peer({own}, reef.roots(kNoon), {}, kNoon, agent);
  EXPECT_EQ(verdict.fault, PeerFault::kOtherCluster);
  EXPECT_NE(error_of(verdict, agent).find("another cluster than reef"), std::string::npos);
}

TEST(VerifyPeer, ARevokedAgentIsOutWithItsReplicas) {
  const Cluster cluster;
  const Certificate agent = cluster.agent(), replica = cluster.replica();
  const Revocations revoked{{AgentId(7)}, {}};
  EXPECT_EQ(cluster.verify(agent, cluster.any_agent(), kNoon, revoked).fault, PeerFault::kRevoked);
  EXPECT_EQ(cluster.verify(replica, cluster.any_replica(), kNoon, revoked).fault,
            PeerFault::kRevoked);
  EXPECT_TRUE(cluster.verify(cluster.agent(AgentId(8)), cluster.any_agent(), kNoon, revoked).ok());
  const Revocations one{{}, {agent.serial()}};
  EXPECT_EQ(cluster.verify(agent, cluster.any_agent(), kNoon, one).fault, PeerFault::kRevoked);
  EXPECT_TRUE(cluster.verify(cluster.agent(), cluster.any_agent(), kNoon, one).ok());
}

TEST(VerifyPeer, AReplicaMustBeTheOneThatTheViewNames) {
  const Cluster cluster;
  const ExpectedPeer expected = expect_exactly({cluster.name, kReplica});
  const auto fault_of = [&](auto change) {
    ReplicaName name = kReplica;
    change(name);
    const PeerVerdict verdict = cluster.verify(cluster.replica(name), expected);
    if (!verdict.ok()) {
      EXPECT_EQ(to_error(verdict, expected).code, Code::kPermissionDenied);
    }
    return verdict.fault;
  };
  EXPECT_EQ(fault_of([](ReplicaName&) {}), PeerFault::kNone);
  EXPECT_EQ(fault_of([](ReplicaName& name) { name.agent = AgentId(8); }), PeerFault::kOtherAgent);
  EXPECT_EQ(fault_of([](ReplicaName& name) { name.job = JobId(4); }), PeerFault::kOtherJob);
  EXPECT_EQ(fault_of([](ReplicaName& name) { name.stage = 1; }), PeerFault::kOtherStage);
  EXPECT_EQ(fault_of([](ReplicaName& name) { name.epoch = 1; }), PeerFault::kOtherEpoch);
  EXPECT_EQ(fault_of([](ReplicaName& name) { name.replica = ReplicaId(42); }),
            PeerFault::kOtherReplica);
}

TEST(VerifyPeer, EachKindIsNoOther) {
  const Cluster cluster;
  const Certificate agent = cluster.agent(), replica = cluster.replica();
  const Certificate server = *cluster.ca.issue_server(PrivateKey::make(), {"localhost"}, kNoon);
  EXPECT_TRUE(cluster.verify(server, cluster.coordinator()).ok());
  EXPECT_EQ(cluster.verify(agent, cluster.coordinator()).fault, PeerFault::kOtherKind);
  EXPECT_EQ(cluster.verify(replica, cluster.coordinator()).fault, PeerFault::kOtherKind);
  EXPECT_EQ(cluster.verify(agent, cluster.any_replica()).fault, PeerFault::kOtherKind);
  EXPECT_EQ(cluster.verify(replica, cluster.any_agent()).fault, PeerFault::kOtherKind);
  // The coordinator's certificate only serves; it calls nobody.
  EXPECT_EQ(cluster.verify(server, cluster.any_agent()).fault, PeerFault::kWrongUse);
}

TEST(VerifyPeer, TheCoordinatorHasTheHostThatWasCalled) {
  const Cluster cluster;
  const Certificate server = *cluster.ca.issue_server(
      PrivateKey::make(), {"reef.example.org", "10.0.0.1", "fd00::1"}, kNoon);
  const auto fault_of = [&](const char* host) {
    ExpectedPeer expected = cluster.coordinator();
    expected.host = host;
    return cluster.verify(server, expected).fault;
  };
  for (const char* host : {"reef.example.org", "REEF.example.org", "10.0.0.1", "fd00:0::1"}) {
    EXPECT_EQ(fault_of(host), PeerFault::kNone) << host;
  }
  for (const char* host :
       {"example.org", "x.reef.example.org", "10.0.0.2", "fd00::2", "coordinator", ""}) {
    EXPECT_EQ(fault_of(host), PeerFault::kOtherHost) << host;
  }
}

TEST(VerifyPeer, ACommonNameIsNoHost) {
  const Cluster cluster;
  const Certificate server = *cluster.ca.issue_server(PrivateKey::make(), {"10.0.0.1"}, kNoon);
  ExpectedPeer expected = cluster.coordinator();
  expected.host = "coordinator";  // as its subject says
  EXPECT_EQ(cluster.verify(server, expected).fault, PeerFault::kOtherHost);
}

TEST(VerifyPeer, RefusesNothingAndTooMuch) {
  const Cluster cluster;
  const Certificate own = cluster.agent();
  const Roots roots = cluster.ca.roots(kNoon);
  const ExpectedPeer agent = cluster.any_agent();
  EXPECT_EQ(verify_peer({}, roots, {}, kNoon, agent).fault, PeerFault::kNoCertificate);
  EXPECT_EQ(
      verify_peer(std::vector<Certificate>(kChainMost + 1, own), roots, {}, kNoon, agent).fault,
      PeerFault::kMalformed);
  EXPECT_TRUE(verify_peer(std::vector<Certificate>(kChainMost, own), roots, {}, kNoon, agent).ok());
}

TEST(VerifyPinned, ItsRootIsTheOneOfTheToken) {
  const Cluster cluster, other;
  const auto shown = cluster.shown(cluster.agent());
  const ExpectedPeer agent = cluster.any_agent();
  EXPECT_TRUE(verify_pinned(shown, cluster.ca.fingerprint(), kNoon, agent).ok());
  const PeerVerdict verdict = verify_pinned(shown, other.ca.fingerprint(), kNoon, agent);
  EXPECT_EQ(verdict.fault, PeerFault::kForeignCa);
  EXPECT_EQ(verdict.our_cas, std::vector<Hash256>{other.ca.fingerprint()});
  EXPECT_EQ(verdict.their_ca, cluster.ca.fingerprint());
  // The pin names a CA, not the member itself, and showing the CA does not make one its member.
  const Certificate own = cluster.agent();
  EXPECT_FALSE(verify_pinned({own}, own.fingerprint(), kNoon, agent).ok());
  EXPECT_EQ(verify_pinned({other.agent(), cluster.ca.certificate()}, cluster.ca.fingerprint(),
                          kNoon, agent)
                .fault,
            PeerFault::kForeignCa);
}

TEST(VerifyPeer, EveryFaultHasASentence) {
  for (const auto& [fault, word] : kEnumerators<PeerFault>) {
    if (fault == PeerFault::kNone) continue;
    PeerVerdict verdict;
    verdict.fault = fault;
    const Error error = to_error(verdict, {.cluster = {"reef"}});
    EXPECT_NE(error.code, Code::kInternal) << word;
    EXPECT_FALSE(error.message.empty() || error.remedy.empty()) << word;
  }
}

TEST(ToWords, HasTwoUnitsAtMost) {
  EXPECT_EQ(to_words(seconds(12)), "12 s");
  EXPECT_EQ(to_words(minutes(5)), "5 min");
  EXPECT_EQ(to_words(seconds(61)), "1 min 1 s");
  EXPECT_EQ(to_words(hours(1)), "1 h");
  EXPECT_EQ(to_words(days(3) + hours(4) + minutes(9)), "3 d 4 h");
  EXPECT_EQ(to_words(Duration{} - minutes(5)), "5 min");
}

}  // namespace
}  // namespace shoal::identity
