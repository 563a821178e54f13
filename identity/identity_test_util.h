// What the tests of this folder share: a folder that goes with the test, a day to live in, and a
// cluster with a CA and some certificates.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/time.h"
#include "identity/authority.h"
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

// A CA as an operator would make it, good for any cluster unless the test changes it.
struct Given {
  PrivateKey key = PrivateKey::make();
  AuthorityPart part{2, ""};
  Validity validity{kNoon - hours(1), kNoon + hours(10)};
  bool is_authority = true;

  Certificate certificate() const {
    CertificatePlan plan{.key = key.get(), .validity = validity, .common_name = "Given CA"};
    if (is_authority) plan.authority = part;
    return issue(plan, key);
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
