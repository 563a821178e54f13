// Whether the other end of a connection is who it should be. verify_peer() is the one place that
// says so; TLS (tls_context.h), gRPC and the renewal of certificates all ask it. It is pure: the
// time, the roots and the revocations are given.
//
// Threads: may be called by any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/refusals.h"
#include "base/result.h"
#include "base/time.h"
#include "identity/certificate.h"
#include "identity/names.h"
#include "identity/roots.h"

namespace shoal::identity {

// What no longer counts although it has not expired. An id is never given out again, so a revoked
// agent comes back under another one, if at all. The owner bounds both sets: agents by those that
// it knows, serials by forgetting what has expired.
struct Revocations {
  std::set<AgentId> agents;       // with all their replicas
  std::set<std::string> serials;  // of single certificates (Certificate::serial())
};

// The peer to expect. Unset fields match anything; a replica is named by all of them.
struct ExpectedPeer {
  ClusterName cluster;
  PeerKind kind = PeerKind::kReplica;
  std::optional<AgentId> agent;
  std::optional<JobId> job;
  std::optional<StageIndex> stage;
  std::optional<std::int64_t> epoch;
  std::optional<ReplicaId> replica;
  std::optional<std::string> host;  // DNS name or IP address that the certificate must have, too
};
ExpectedPeer expect_exactly(const PeerName& name);

enum class PeerFault {
  kNone,
  kNoCertificate,
  kMalformed,     // too many certificates, no name, extensions that contradict each other
  kForeignCa,     // no trusted root stands above it
  kBadSignature,  // it names our CA, which did not sign it
  kExpired,
  kNotYetValid,
  kWrongUse,  // a CA's certificate, or one that may not do what it is used for
  kOtherCluster,
  kRevoked,
  kOtherKind,  // an agent where a replica is expected, ...
  kOtherAgent,
  kOtherJob,
  kOtherStage,
  kOtherEpoch,
  kOtherReplica,
  kOtherHost,
};
constexpr auto enumerators_of(Of<PeerFault>) {
  using enum PeerFault;
  return enumerators<PeerFault>({{kNone, "none"},
                                 {kNoCertificate, "no_certificate"},
                                 {kMalformed, "malformed"},
                                 {kForeignCa, "foreign_ca"},
                                 {kBadSignature, "bad_signature"},
                                 {kExpired, "expired"},
                                 {kNotYetValid, "not_yet_valid"},
                                 {kWrongUse, "wrong_use"},
                                 {kOtherCluster, "other_cluster"},
                                 {kRevoked, "revoked"},
                                 {kOtherKind, "other_kind"},
                                 {kOtherAgent, "other_agent"},
                                 {kOtherJob, "other_job"},
                                 {kOtherStage, "other_stage"},
                                 {kOtherEpoch, "other_epoch"},
                                 {kOtherReplica, "other_replica"},
                                 {kOtherHost, "other_host"}});
}

struct PeerVerdict {
  PeerFault fault = PeerFault::kNoCertificate;
  std::optional<PeerName> name;     // who it says it is: proven only without a fault
  Duration off_by;                  // kExpired: since when; kNotYetValid: how far the clocks differ
  bool is_about_ca = false;         // kExpired, kNotYetValid: of the CA's certificate
  std::optional<Hash256> their_ca;  // kForeignCa: the CA that it showed, unproven
  std::vector<Hash256> our_cas;     // kForeignCa
  bool ok() const { return fault == PeerFault::kNone; }
};

// `chain` is the peer's own certificate and what it sent with it, in any order. A chain ends at a
// root; the time of every certificate in it counts.
PeerVerdict verify_peer(const std::vector<Certificate>& chain, const Roots& roots,
                        const Revocations& revoked, Instant now, const ExpectedPeer& expected);

// The chain of a joiner, who knows no root but the fingerprint in its token: the root is the
// certificate of the chain that has it. A joiner does not know the cluster's name either: an empty
// one expects whichever the pinned CA stands for.
PeerVerdict verify_pinned(const std::vector<Certificate>& chain, const Hash256& pin, Instant now,
                          const ExpectedPeer& expected);

// As which refusal a fault counts.
RefusalReason reason_of(PeerFault fault);

// One sentence with its remedy, for a verdict with a fault. Code: unauthenticated, or
// permission_denied when the peer is a member, but not the one that is expected.
Error to_error(const PeerVerdict& verdict, const ExpectedPeer& expected);

// Beneath verify_peer(), for certificates that may have expired (renewal.h): everything but the
// time, and who is expected.
PeerVerdict verify_issued(const std::vector<Certificate>& chain, const Roots& roots,
                          const Revocations& revoked, const ClusterName& cluster, Instant now);

// "1 h 3 min", "12 s": two units at most, for messages.
std::string to_words(Duration duration);

}  // namespace shoal::identity
