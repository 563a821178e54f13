#include "identity/authority.h"

#include <openssl/pem.h>
#include <sys/stat.h>

#include "identity/identity_test_util.h"
#include "identity/openssl.h"
#include "identity/private_file.h"

namespace shoal::identity {
namespace {

std::string extension_of(const Certificate& certificate, int nid) {
  const int place = X509_get_ext_by_NID(certificate.get(), nid, -1);
  if (place < 0) return "none";
  X509_EXTENSION* extension = X509_get_ext(certificate.get(), place);
  const BioPtr bio(BIO_new(BIO_s_mem()));
  X509V3_EXT_print(bio.get(), extension, 0, 0);
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  std::string value(text, static_cast<std::size_t>(size));
  while (!value.empty() && value.back() == '\n') value.pop_back();
  return (X509_EXTENSION_get_critical(extension) != 0 ? "critical, " : "") + value;
}

TEST(Authority, ANewClusterGetsAName) {
  const ClusterName made = make_cluster_name();
  EXPECT_EQ(made.text.size(), 17u);
  EXPECT_EQ(*parse_cluster_name(made.text), made);
  EXPECT_NE(make_cluster_name(), made);
}

TEST(Authority, ItsCertificateMaySignAndBeRotated) {
  const Cluster cluster;
  const Certificate& ca = cluster.ca.certificate();
  EXPECT_EQ(extension_of(ca, NID_basic_constraints), "critical, CA:TRUE, pathlen:1");
  EXPECT_EQ(extension_of(ca, NID_key_usage), "critical, Certificate Sign, CRL Sign");
  EXPECT_EQ(extension_of(ca, NID_name_constraints), "none");
  EXPECT_NE(extension_of(ca, NID_subject_key_identifier), "none");
  EXPECT_EQ(ca.not_before(), kNoon - kBackdate);
  EXPECT_EQ(ca.not_after(), kNoon + kAuthorityLife);
  EXPECT_EQ(cluster.ca.roots(kNoon).size(), 1u);
  EXPECT_EQ(cluster.ca.chain(kNoon).size(), 1u);
}

TEST(Authority, AnAgentGetsADay) {
  const Cluster cluster;
  const PrivateKey key = PrivateKey::make();
  const Certificate issued = *cluster.ca.issue_agent(request_of(key), AgentId(7), kNoon);
  EXPECT_EQ(to_string(*issued.name()), "shoal://reef/agent/agt_7");
  EXPECT_EQ(issued.key_fingerprint(), key.public_fingerprint());
  EXPECT_EQ(issued.not_before(), kNoon - kBackdate);
  EXPECT_EQ(issued.not_after(), kNoon + kAgentLife);
  EXPECT_EQ(extension_of(issued, NID_basic_constraints), "critical, CA:FALSE");
  EXPECT_EQ(extension_of(issued, NID_key_usage), "critical, Digital Signature");
  EXPECT_EQ(extension_of(issued, NID_ext_key_usage),
            "TLS Web Server Authentication, TLS Web Client Authentication");
  EXPECT_EQ(cluster.verify(issued, cluster.any_agent()).fault, PeerFault::kNone);
}

TEST(Authority, AReplicaIsNamedByAllOfIt) {
  const Cluster cluster;
  const Certificate issued = cluster.replica();
  EXPECT_EQ(to_string(*issued.name()),
            "shoal://reef/agent/agt_7/job/job_3/stage/0/epoch/2/replica/rep_41");
  EXPECT_EQ(issued.not_after(), kNoon + kReplicaLife);
  EXPECT_EQ(cluster.verify(issued, expect_exactly(*issued.name())).fault, PeerFault::kNone);
}

TEST(Authority, TheCoordinatorHasHosts) {
  const Cluster cluster;
  const PrivateKey key = PrivateKey::make();
  const Certificate issued =
      *cluster.ca.issue_server(key, {"reef.example.org", "127.0.0.1", "::1"}, kNoon);
  EXPECT_EQ(extension_of(issued, NID_subject_alt_name),
            "URI:shoal://reef/coordinator, DNS:reef.example.org, IP Address:127.0.0.1, IP "
            "Address:0:0:0:0:0:0:0:1");
  EXPECT_EQ(extension_of(issued, NID_ext_key_usage), "TLS Web Server Authentication");
  EXPECT_EQ(issued.not_after(), kNoon + kServerLife);
}

TEST(Authority, OnlyHostsGoIntoAServersCertificate) {
  const Cluster cluster;
  const PrivateKey key = PrivateKey::make();
  for (const std::string host :
       {"", "a b", "https://reef", "reef:7070", "*.reef.org", "-reef", "reef..org", "reef.", "a\nb",
        "1.2.3.4.5", "256.1.1.1", "a,URI:shoal://reef/agent/agt_1"}) {
    const auto refused = cluster.ca.issue_server(key, {host}, kNoon);
    ASSERT_FALSE(refused.ok()) << host;
    EXPECT_EQ(refused.error().code, Code::kValidation);
    EXPECT_EQ(refused.error().field, "host");
  }
  EXPECT_FALSE(cluster.ca.issue_server(key, {}, kNoon).ok());
  EXPECT_FALSE(
      cluster.ca.issue_server(key, std::vector<std::string>(kHostsMost + 1, "a"), kNoon).ok());
}

TEST(Authority, NothingOutlivesTheCa) {
  const Cluster cluster;
  const Instant end = cluster.ca.certificate().not_after();
  EXPECT_EQ(cluster.agent(AgentId(7), end - hours(2)).not_after(), end);
  const SigningRequest request = request_of(PrivateKey::make());
  EXPECT_EQ(cluster.ca.issue_agent(request, AgentId(7), end).error().code, Code::kUnavailable);
  EXPECT_EQ(cluster.ca.issue_agent(request, AgentId(7), kNoon - hours(1)).error().code,
            Code::kUnavailable);
}

TEST(Authority, IsTheSameAfterAFile) {
  const TemporaryFolder folder;
  const Cluster cluster;
  const std::string path = folder.file("ca");
  ASSERT_TRUE(cluster.ca.save(path).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto loaded = Authority::load(path, cluster.name);
  ASSERT_TRUE(loaded.ok()) << to_string(loaded.error());
  EXPECT_EQ(loaded->fingerprint(), cluster.ca.fingerprint());
  const Certificate issued =
      *loaded->issue_agent(request_of(PrivateKey::make()), AgentId(7), kNoon);
  EXPECT_EQ(cluster.verify(issued, cluster.any_agent()).fault, PeerFault::kNone);
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(Authority::load(path, cluster.name).error().code, Code::kPermissionDenied);
  ASSERT_TRUE(write_private_file(path, "nothing of the kind").ok());
  EXPECT_EQ(Authority::load(path, cluster.name).error().field, path);
  ASSERT_TRUE(
      write_private_file(path, PrivateKey::make().pem() + cluster.ca.certificate().pem()).ok());
  EXPECT_EQ(Authority::load(path, cluster.name).error().field, path);
}

TEST(Authority, IsMadeOnceAndMissedWhenLost) {
  const TemporaryFolder folder;
  const ClusterName name{"reef"};
  const std::string path = folder.file("ca");
  const auto made = Authority::load_or_make(path, name, std::nullopt, kNoon);
  ASSERT_TRUE(made.ok()) << to_string(made.error());
  const Hash256 known = made->fingerprint();
  EXPECT_EQ(Authority::load_or_make(path, name, known, kNoon)->fingerprint(), known);
  EXPECT_EQ(Authority::load_or_make(path, name, std::nullopt, kNoon)->fingerprint(), known);
  EXPECT_EQ(Authority::load_or_make(path, name, sha256("other"), kNoon).error().code,
            Code::kConflict);
  ASSERT_TRUE(std::filesystem::remove(path));
  EXPECT_EQ(Authority::load_or_make(path, name, known, kNoon).error().code, Code::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(GivenAuthority, IssuesWithinItsLife) {
  const Given given;
  const auto ca = given.authority();
  ASSERT_TRUE(ca.ok()) << to_string(ca.error());
  const Certificate issued = *ca->issue_agent(request_of(PrivateKey::make()), AgentId(7), kNoon);
  EXPECT_EQ(issued.not_after(), kNoon + hours(10));
  const ExpectedPeer agent{.cluster = {"reef"}, .kind = PeerKind::kAgent};
  EXPECT_TRUE(verify_peer({issued}, ca->roots(kNoon), {}, kNoon, agent).ok());
}

TEST(GivenAuthority, WithAnRsaKey) {
  const PublicKeyPtr rsa(EVP_RSA_gen(2048));
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), rsa.get(), nullptr, nullptr, 0, nullptr, nullptr);
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  Given given;
  given.key = *PrivateKey::parse_given({text, static_cast<std::size_t>(size)});
  const auto ca = given.authority();
  ASSERT_TRUE(ca.ok()) << to_string(ca.error());
  const Certificate issued = *ca->issue_agent(request_of(PrivateKey::make()), AgentId(7), kNoon);
  const ExpectedPeer agent{.cluster = {"reef"}, .kind = PeerKind::kAgent};
  EXPECT_TRUE(verify_peer({issued}, ca->roots(kNoon), {}, kNoon, agent).ok());
}

TEST(GivenAuthority, MayStandBelowAnother) {
  const Given above, given;
  const Certificate root = above.certificate();
  CertificatePlan plan{.key = given.key.get(), .validity = given.validity, .common_name = "Lab CA"};
  plan.issuer = &root;
  plan.path_length = 1;
  const Certificate below = issue(plan, above.key);
  const auto ca = Authority::given(below.pem(), given.key.pem(), {"reef"}, kNoon);
  ASSERT_TRUE(ca.ok()) << to_string(ca.error());
  const ExpectedPeer agent{.cluster = {"reef"}, .kind = PeerKind::kAgent};
  const Certificate own = *ca->issue_agent(request_of(PrivateKey::make()), AgentId(7), kNoon);
  EXPECT_TRUE(verify_peer({own}, ca->roots(kNoon), {}, kNoon, agent).ok());
  // What else the CA above has signed is foreign.
  CertificatePlan other{.key = above.key.get(), .validity = given.validity, .common_name = "agt_7"};
  other.issuer = &root;
  other.member = MemberPart{{{"reef"}, AgentId(7)}, {}};
  EXPECT_EQ(verify_peer({issue(other, above.key), root}, ca->roots(kNoon), {}, kNoon, agent).fault,
            PeerFault::kForeignCa);
}

TEST(GivenAuthority, EachMistakeIsRefused) {
  Given given;
  given.permitted = "reef";
  EXPECT_TRUE(given.authority().ok());
  given.permitted = "pond";
  EXPECT_FALSE(given.authority().ok());
  given = Given();
  given.path_length = 0;
  EXPECT_FALSE(given.authority().ok());
  given = Given();
  given.path_length = std::nullopt;
  EXPECT_FALSE(given.authority().ok());
  given = Given();
  given.validity = {kNoon - hours(2), kNoon - hours(1)};
  EXPECT_FALSE(given.authority().ok());
  given.validity = {kNoon + hours(1), kNoon + hours(2)};
  EXPECT_FALSE(given.authority().ok());
  given = Given();
  const auto other =
      Authority::given(given.certificate().pem(), PrivateKey::make().pem(), {"reef"}, kNoon);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().field, "ca");
  EXPECT_EQ(Authority::given("", given.key.pem(), {"reef"}, kNoon).error().field, "ca");
  EXPECT_EQ(Authority::given(given.certificate().pem(), "", {"reef"}, kNoon).error().field, "ca");
}

// Before, during and after a rotation that began at noon.
struct Rotation {
  Cluster before;
  Cluster after = before;
  explicit Rotation(Duration overlap = kOverlap) {
    after.ca = *before.ca.rotated(Authority::make(before.name, kNoon), overlap, kNoon);
  }
};

TEST(Rotation, DuringTheOverlapAllBelieveAll) {
  const Rotation rotation;
  const Certificate old = rotation.before.agent(), fresh = rotation.after.agent();
  const ExpectedPeer agent = rotation.before.any_agent();
  const Roots one = rotation.before.ca.roots(kNoon), both = rotation.after.ca.roots(kNoon);
  ASSERT_EQ(both.size(), 2u);
  for (const Certificate& own : {old, fresh}) {
    for (const Roots& roots : {one, both}) {
      const auto shown = rotation.after.shown(own);
      EXPECT_EQ(verify_peer(shown, roots, {}, kNoon, agent).fault, PeerFault::kNone);
    }
  }
  // Without the cross certificate those who know only the old root would not.
  EXPECT_EQ(verify_peer({fresh}, one, {}, kNoon, agent).fault, PeerFault::kForeignCa);
}

TEST(Rotation, AfterTheOverlapTheOldRootIsForgotten) {
  const Rotation rotation;
  const Instant later = kNoon + kOverlap;
  EXPECT_EQ(rotation.after.ca.roots(later - seconds(1)).size(), 2u);
  EXPECT_EQ(rotation.after.ca.roots(later).size(), 1u);
  EXPECT_EQ(rotation.after.ca.chain(later).size(), 1u);
  const Certificate forged = rotation.before.agent(AgentId(7), later);
  EXPECT_EQ(rotation.after.verify(forged, rotation.after.any_agent(), later).fault,
            PeerFault::kForeignCa);
  // Nor by somebody who still has the list of before.
  EXPECT_EQ(
      verify_peer({forged}, rotation.after.ca.roots(kNoon), {}, later, rotation.after.any_agent())
          .fault,
      PeerFault::kForeignCa);
}

TEST(Rotation, AJoinerFindsTheRootOfItsTokenAmongThose) {
  const Rotation rotation;
  const auto shown = rotation.after.shown(rotation.after.agent());
  const ExpectedPeer agent = rotation.before.any_agent();
  EXPECT_TRUE(verify_pinned(shown, rotation.before.ca.fingerprint(), kNoon, agent).ok());
  EXPECT_TRUE(verify_pinned(shown, rotation.after.ca.fingerprint(), kNoon, agent).ok());
}

TEST(Rotation, WithoutOverlapTheOldRootCountsNoMore) {
  const Rotation rotation(Duration{});
  for (const Instant now : {kNoon - minutes(1), kNoon}) {  // also by a clock that was set back
    EXPECT_EQ(rotation.after.ca.roots(now).size(), 1u);
    EXPECT_EQ(rotation.after.ca.chain(now).size(), 1u);
  }
  EXPECT_EQ(rotation.after.verify(rotation.before.agent(), rotation.after.any_agent()).fault,
            PeerFault::kForeignCa);
}

TEST(Rotation, IsTheSameAfterAFile) {
  const TemporaryFolder folder;
  const Rotation rotation;
  ASSERT_TRUE(rotation.after.ca.save(folder.file("ca")).ok());
  const auto loaded = Authority::load(folder.file("ca"), rotation.after.name);
  ASSERT_TRUE(loaded.ok()) << to_string(loaded.error());
  EXPECT_EQ(to_pem(loaded->chain(kNoon)), to_pem(rotation.after.ca.chain(kNoon)));
  EXPECT_EQ(loaded->roots(kNoon).size(), 2u);
}

TEST(Rotation, TheCrossCertificateMakesNoFurtherCas) {
  const Rotation rotation;
  const Certificate cross = rotation.after.ca.chain(kNoon).front();
  EXPECT_EQ(extension_of(cross, NID_basic_constraints), "critical, CA:TRUE, pathlen:0");
  EXPECT_EQ(cross.not_after(), kNoon + kOverlap);
  EXPECT_TRUE(cross.is_signed_by(rotation.before.ca.certificate()));
}

// A CA that names its key in a way of its own: the cross certificate must name it so, too.
TEST(Rotation, ToAGivenCa) {
  const Given given;
  const Certificate made =
      with_extension(given.certificate(), NID_subject_key_identifier, "01:02:03:04", given.key);
  const auto next = Authority::given(made.pem(), given.key.pem(), {"reef"}, kNoon);
  ASSERT_TRUE(next.ok()) << to_string(next.error());
  const Cluster before;
  Cluster after = before;
  after.ca = *before.ca.rotated(*next, kOverlap, kNoon);
  EXPECT_EQ(
      verify_peer(after.shown(after.agent()), before.ca.roots(kNoon), {}, kNoon, before.any_agent())
          .fault,
      PeerFault::kNone);
}

TEST(Rotation, NeedsAnotherKeyOfTheSameCluster) {
  const Cluster cluster;
  EXPECT_EQ(cluster.ca.rotated(cluster.ca, kOverlap, kNoon).error().code, Code::kConflict);
  EXPECT_EQ(cluster.ca.rotated(Cluster("pond").ca, kOverlap, kNoon).error().code, Code::kConflict);
}

}  // namespace
}  // namespace shoal::identity
