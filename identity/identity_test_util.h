// What the tests of this folder share: a folder that goes with the test, a day to live in, and a
// cluster with a CA and some certificates.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/time.h"
#include "identity/authority.h"
#include "identity/openssl.h"
#include "identity/peer.h"

namespace shoal::identity {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "shoal-identity-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline constexpr Instant kNoon = from_unix_ms(1'800'000'000'000);  // 2027-01-15 08:00:00 UTC
constexpr Duration minutes(std::int64_t n) { return seconds(n * 60); }
constexpr Duration hours(std::int64_t n) { return seconds(n * 3600); }
constexpr Duration days(std::int64_t n) { return hours(n * 24); }

inline SigningRequest request_of(const PrivateKey& key) {
  return *SigningRequest::parse(make_request(key));
}

inline const ReplicaName kReplica{AgentId(7), JobId(3), 0, 2, ReplicaId(41)};

// The certificate with another value of an extension, as in OpenSSL's configuration files, or with
// none; signed again.
inline Certificate with_extension(const Certificate& certificate, int nid, const std::string& value,
                                  const PrivateKey& signer) {
  const Certificate copy = *Certificate::from_der(certificate.der());
  X509* changed = copy.get();
  X509_EXTENSION_free(X509_delete_ext(changed, X509_get_ext_by_NID(changed, nid, -1)));
  if (!value.empty()) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    X509_add_ext(changed, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(changed, signer.get(), EVP_sha256());
  return *Certificate::from_der(copy.der());
}

// A CA as an operator would make it, good for any cluster unless the test changes it.
struct Given {
  PrivateKey key = PrivateKey::make();
  std::optional<int> path_length = 2;  // none: not a CA
  Validity validity{kNoon - hours(1), kNoon + hours(10)};
  std::string permitted;  // its name constraint

  Certificate certificate() const {
    CertificatePlan plan{.key = key.get(), .validity = validity, .common_name = "Given CA"};
    plan.path_length = path_length;
    const Certificate made = issue(plan, key);
    if (permitted.empty()) return made;
    return with_extension(made, NID_name_constraints, "permitted;URI:" + permitted, key);
  }
  Result<Authority> authority(const char* cluster = "reef") const {
    return Authority::given(certificate().pem(), key.pem(), {cluster}, kNoon);
  }
};

// A cluster with a CA, and what its members hold.
struct Cluster {
  ClusterName name;
  Authority ca;

  explicit Cluster(const char* text = "reef", Instant now = kNoon)
      : name{text}, ca(Authority::make(name, now)) {}

  // The chain that a member shows.
  std::vector<Certificate> shown(const Certificate& own, Instant now = kNoon) const {
    std::vector<Certificate> chain = {own};
    for (const Certificate& each : ca.chain(now)) chain.push_back(each);
    return chain;
  }
  Certificate agent(AgentId agent = AgentId(7), Instant now = kNoon) const {
    return *ca.issue_agent(request_of(PrivateKey::make()), agent, now);
  }
  Certificate replica(const ReplicaName& name = kReplica, Instant now = kNoon) const {
    return *ca.issue_replica(request_of(PrivateKey::make()), name, now);
  }
  ExpectedPeer any_agent() const { return {.cluster = name, .kind = PeerKind::kAgent}; }
  ExpectedPeer any_replica() const { return {.cluster = name}; }
  ExpectedPeer coordinator() const { return {.cluster = name, .kind = PeerKind::kCoordinator}; }

  PeerVerdict verify(const Certificate& own, const ExpectedPeer& expected, Instant now = kNoon,
                     const Revocations& revoked = {}) const {
    return verify_peer(shown(own, now), ca.roots(now), revoked, now, expected);
  }
};

}  // namespace shoal::identity
