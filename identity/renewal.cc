#include "identity/renewal.h"

#include <algorithm>
#include <variant>

#include "base/prng.h"

namespace shoal::identity {
namespace {

// What is signed says what it is for, so that no other signature of the key can stand for it.
std::string proof_text(const ClusterName& cluster, const SigningRequest& request) {
  return "shoal: new certificate for the holder of an old key\n" + cluster.text + "\n" +
         to_hex(request.fingerprint());
}

}  // namespace

RenewalPlan plan_renewal(const Validity& validity, std::uint64_t seed, Instant now) {
  const Duration life = validity.to - validity.from;
  const auto from = static_cast<std::uint64_t>(validity.from.ns);
  const std::int64_t part = life.ns / 20;
  const Duration jitter{Prng(mix_seed(seed, from)).range(-part, part)};
  RenewalPlan plan{.renew_at = validity.from + life * 2 / 3 + jitter};
  if (now >= validity.to) {
    plan.step = RenewalStep::kProveOldKey;
  } else if (now >= plan.renew_at) {
    plan.step = RenewalStep::kRenew;
  }
  return plan;
}

std::string prove_old_key(const PrivateKey& old_key, const ClusterName& cluster,
                          const SigningRequest& request) {
  return old_key.sign(proof_text(cluster, request));
}

ReturnVerdict decide_return(const ReturnClaim& claim, const Roots& roots,
                            const Revocations& revoked, const ClusterName& cluster, Instant now) {
  ReturnVerdict verdict;
  verdict.peer = verify_issued(claim.chain, roots, revoked, cluster, now);
  if (verdict.peer.fault == PeerFault::kRevoked) verdict.reason = ReturnReason::kRevoked;
  if (!verdict.peer.ok()) return verdict;
  const Certificate& old = claim.chain.front();
  const auto* agent = std::get_if<AgentId>(&verdict.peer.name->who);
  verdict.expired_for = std::max(now - old.not_after(), Duration{});
  if (agent == nullptr) {
    verdict.reason = ReturnReason::kNoAgent;
  } else if (verdict.expired_for > kOutageMost) {
    verdict.reason = ReturnReason::kTooLongAgo;
  } else if (!has_signed(old.public_key(), proof_text(cluster, claim.request), claim.proof)) {
    verdict.reason = ReturnReason::kWrongProof;
  } else {
    verdict.reason = ReturnReason::kAccepted;
    verdict.agent = *agent;
  }
  return verdict;
}

Error to_error(const ReturnVerdict& verdict, const ClusterName& cluster) {
  const auto refused = [](std::string message) {
    return Error{Code::kUnauthenticated, std::move(message), "certificate",
                 "let the agent join again with a new token: shoal token create --join"};
  };
  switch (verdict.reason) {
    case ReturnReason::kNoAgent:
      return refused("the old certificate is not an agent's");
    case ReturnReason::kRevoked:
      return refused("the agent was revoked");
    case ReturnReason::kTooLongAgo:
      return refused("the old certificate expired " + to_words(verdict.expired_for) +
                     " ago; an agent may come back within " + to_words(kOutageMost));
    case ReturnReason::kWrongProof:
      return refused("the proof was not made with the key of the old certificate");
    case ReturnReason::kAccepted:
    case ReturnReason::kNotBelieved:
      break;
  }
  return to_error(verdict.peer, {.cluster = cluster, .kind = PeerKind::kAgent});
}

}  // namespace shoal::identity
