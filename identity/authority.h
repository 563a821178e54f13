// The cluster's certificate authority (CA): the coordinator makes it at its first start, or is
// given one. It issues short certificates whose names the caller decides. Agents and people trust
// its certificate alone, by the fingerprint that a join token names.
//
// Rotation. rotated() makes a new CA that the old one vouches for: until the overlap ends, roots()
// are both, and chain() holds a cross certificate (the new key, signed by the old one), so that
// those who know only the old root believe what the new one issues. A rotation without overlap
// forgets the old root at once, for a CA whose key has leaked: everybody joins again.
//
// Threads: an authority does not change; copies share keys, and any thread may issue.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "identity/certificate.h"
#include "identity/issue.h"
#include "identity/key.h"
#include "identity/names.h"
#include "identity/request.h"
#include "identity/roots.h"

namespace shoal::identity {

inline constexpr Duration kDay = seconds(86'400);
inline constexpr Duration kAuthorityLife = kDay * 3650;
inline constexpr Duration kAgentLife = kDay;
inline constexpr Duration kReplicaLife = seconds(4 * 3600);
inline constexpr Duration kServerLife = kDay * 7;
inline constexpr Duration kOverlap = kDay * 14;
// What is issued counts from so long ago, since clocks differ a little.
inline constexpr Duration kBackdate = seconds(300);
inline constexpr std::size_t kHostsMost = 32;  // of a server's certificate

// A name for a new cluster: "c" and 16 random hex digits.
ClusterName make_cluster_name();

class Authority {
 public:
  // For a new cluster: a key, and a certificate signed by itself with a path length of 1, which a
  // rotation needs. It has no name constraint (docs/identity.md says why).
  static Authority make(const ClusterName& cluster, Instant now);

  // Given by an operator, as PEM: first its certificate. Refused, each with its reason: not a CA,
  // no right to sign certificates, a path length of 0, a key that is another one's, a name
  // constraint without this cluster, not valid now.
  static Result<Authority> given(std::string_view certificate_pem, std::string_view key_pem,
                                 const ClusterName& cluster, Instant now);

  // A file of mode 0600 with everything of it. Its errors have the path as their field. The file
  // does not say of which cluster it is: load_or_make() compares its fingerprint.
  static Result<Authority> load(const std::string& path, const ClusterName& cluster);
  Status save(const std::string& path) const;

  // At the coordinator's start. `known` is the fingerprint that the store has of it, none before
  // the first start. A file that is lost, or another CA's, is refused when there should be one.
  static Result<Authority> load_or_make(const std::string& path, const ClusterName& cluster,
                                        const std::optional<Hash256>& known, Instant now);

  // Certificates of a day for an agent, of hours for a replica. The key comes from the request, the
  // name from the caller. Errors: the CA has expired, or `now` lies before it.
  Result<Certificate> issue_agent(const SigningRequest& request, AgentId agent, Instant now,
                                  Duration life = kAgentLife) const;
  Result<Certificate> issue_replica(const SigningRequest& request, const ReplicaName& replica,
                                    Instant now) const;
  // The coordinator's own, with the DNS names and IP addresses under which it is reached, 1 to
  // kHostsMost. Another error: validation, field "host".
  Result<Certificate> issue_server(const PrivateKey& key, const std::vector<std::string>& hosts,
                                   Instant now) const;

  // `next` in place of this one, in the same cluster. With an overlap of 0 it is trusted alone.
  // At an earlier rotation's end its oldest root is forgotten. Error: conflict, when both are one.
  Result<Authority> rotated(const Authority& next, Duration overlap, Instant now) const;

  const ClusterName& cluster() const { return cluster_; }
  const Certificate& certificate() const { return certificate_; }
  Hash256 fingerprint() const { return certificate_.fingerprint(); }
  // What is sent after a certificate of its own: the cross certificate while there is one, and the
  // roots, by which a joiner finds the one that its token names.
  std::vector<Certificate> chain(Instant now) const;
  Roots roots(Instant now) const;

 private:
  struct Past {  // the root before, and the cross certificate that it signed
    Certificate cross, root;
    bool is_over(Instant now) const { return now >= cross.not_after(); }
  };

  Authority(ClusterName cluster, PrivateKey key, Certificate certificate)
      : cluster_(std::move(cluster)), key_(std::move(key)), certificate_(std::move(certificate)) {}
  static Result<Authority> parse(std::string_view pem, const ClusterName& cluster);
  Result<Certificate> issue_member(EVP_PKEY* key, const MemberPart& member, Duration life,
                                   Instant now) const;

  ClusterName cluster_;
  PrivateKey key_;
  Certificate certificate_;
  std::optional<Past> past_;
};

}  // namespace shoal::identity
