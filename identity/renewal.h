// When a member renews its certificate, and how an agent comes back whose certificate expired while
// it was cut off. Pure decisions; the random part is drawn from a seed.
//
// Threads: all functions may be called by any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "identity/authority.h"
#include "identity/peer.h"

namespace shoal::identity {

enum class RenewalStep {
  kKeep,         // until the instant of the plan
  kRenew,        // on the line, with the certificate that still counts
  kProveOldKey,  // it has expired: prove_old_key()
};
constexpr auto enumerators_of(Of<RenewalStep>) {
  using enum RenewalStep;
  return enumerators<RenewalStep>(
      {{kKeep, "keep"}, {kRenew, "renew"}, {kProveOldKey, "prove_old_key"}});
}

struct RenewalPlan {
  RenewalStep step = RenewalStep::kKeep;
  Instant renew_at;  // two thirds of the life, a twentieth of it more or less
  bool operator==(const RenewalPlan&) const = default;
};

// `seed` differs between members, so that a thousand that were issued at once do not renew at once.
// A renewal that fails is tried again with a back-off (base/backoff.h).
RenewalPlan plan_renewal(const Validity& validity, std::uint64_t seed, Instant now);

// For how long after its end a certificate lets its agent come back without a new join token.
inline constexpr Duration kOutageMost = kDay * 90;

// The old key's signature over the request for a new certificate. Repeating it yields a
// certificate for a key that he does not have, so it needs no freshness.
std::string prove_old_key(const PrivateKey& old_key, const ClusterName& cluster,
                          const SigningRequest& request);

enum class ReturnReason { kAccepted, kNotBelieved, kNoAgent, kRevoked, kTooLongAgo, kWrongProof };
constexpr auto enumerators_of(Of<ReturnReason>) {
  using enum ReturnReason;
  return enumerators<ReturnReason>({{kAccepted, "accepted"},
                                    {kNotBelieved, "not_believed"},
                                    {kNoAgent, "no_agent"},
                                    {kRevoked, "revoked"},
                                    {kTooLongAgo, "too_long_ago"},
                                    {kWrongProof, "wrong_proof"}});
}

struct ReturnVerdict {
  ReturnReason reason = ReturnReason::kNotBelieved;
  AgentId agent;         // kAccepted: whom to issue the certificate to
  PeerVerdict peer;      // kNotBelieved: why
  Duration expired_for;  // kTooLongAgo; else 0 or more
  bool ok() const { return reason == ReturnReason::kAccepted; }
};

// What somebody shows who asks for a new certificate without one that still counts.
struct ReturnClaim {
  std::vector<Certificate> chain;  // the old certificate and what was sent with it
  SigningRequest request;
  std::string proof;
};
ReturnVerdict decide_return(const ReturnClaim& claim, const Roots& roots,
                            const Revocations& revoked, const ClusterName& cluster, Instant now);

// Code unauthenticated, field "certificate". For a verdict that is not ok().
Error to_error(const ReturnVerdict& verdict, const ClusterName& cluster);

}  // namespace shoal::identity
