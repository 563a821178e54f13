#include "identity/peer.h"

#include <algorithm>
#include <utility>

#include "identity/authority.h"
#include "identity/openssl.h"

namespace shoal::identity {
namespace {

constexpr int kDepthMost = 3;      // cross certificate, CA, and one above a given CA
constexpr int kSecurityLevel = 2;  // 112 bits

PeerFault fault_of(int code) {
  switch (code) {
    case X509_V_OK:
      return PeerFault::kNone;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return PeerFault::kExpired;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return PeerFault::kNotYetValid;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_UNTRUSTED:
      return PeerFault::kForeignCa;
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return PeerFault::kBadSignature;
    case X509_V_ERR_PERMITTED_VIOLATION:
    case X509_V_ERR_EXCLUDED_VIOLATION:
      return PeerFault::kOtherCluster;
    case X509_V_ERR_INVALID_PURPOSE:
    case X509_V_ERR_INVALID_CA:
    case X509_V_ERR_PATH_LENGTH_EXCEEDED:
    case X509_V_ERR_KEYUSAGE_NO_CERTSIGN:
      return PeerFault::kWrongUse;
    default:
      return PeerFault::kMalformed;
  }
}

StorePtr store_of(const Roots& roots, Instant now) {
  StorePtr store(must_have(X509_STORE_new()));
  for (const Root& root : roots) {
    if (now < root.until) must(X509_STORE_add_cert(store.get(), root.certificate.get()));
  }
  return store;
}

StackPtr others_of(const std::vector<Certificate>& chain) {
  StackPtr stack(must_have(sk_X509_new_null()));
  for (std::size_t i = 1; i < chain.size(); ++i) must(sk_X509_push(stack.get(), chain[i].get()));
  return stack;
}

enum class Times { kChecked, kPassedOver };

// A root need not have signed itself: a given CA may stand below another one.
void set_rules(X509_STORE_CTX* context, Instant now, PeerKind kind, Times times) {
  X509_VERIFY_PARAM* rules = X509_STORE_CTX_get0_param(context);
  must(X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN));
  if (times == Times::kPassedOver) {
    must(X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_NO_CHECK_TIME));
  } else {
    X509_VERIFY_PARAM_set_time(rules, now.unix_ms() / 1000);
  }
  X509_VERIFY_PARAM_set_depth(rules, kDepthMost);
  X509_VERIFY_PARAM_set_auth_level(rules, kSecurityLevel);
  must(X509_VERIFY_PARAM_set_purpose(
      rules, kind == PeerKind::kCoordinator ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT));
}

// The first CA that it showed and that is none of ours.
std::optional<Hash256> foreign_ca(const std::vector<Certificate>& chain,
                                  const std::vector<Hash256>& ours) {
  for (const Certificate& each : chain) {
    if (!each.is_authority()) continue;
    const Hash256 fingerprint = each.fingerprint();
    if (std::find(ours.begin(), ours.end(), fingerprint) == ours.end()) return fingerprint;
  }
  return std::nullopt;
}

void explain(PeerVerdict& verdict, const std::vector<Certificate>& chain, const Roots& roots,
             X509_STORE_CTX* context, Instant now) {
  X509* current = X509_STORE_CTX_get_current_cert(context);
  verdict.is_about_ca = X509_STORE_CTX_get_error_depth(context) > 0;
  if (verdict.fault == PeerFault::kExpired && current != nullptr) {
    verdict.off_by = now - Certificate::share(current).not_after();
  } else if (verdict.fault == PeerFault::kNotYetValid && current != nullptr) {
    verdict.off_by = Certificate::share(current).not_before() + kBackdate - now;
  } else if (verdict.fault == PeerFault::kForeignCa) {
    for (const Root& root : roots) {
      if (now < root.until) verdict.our_cas.push_back(root.certificate.fingerprint());
    }
    verdict.their_ca = foreign_ca(chain, verdict.our_cas);
  }
}

// Signatures, times and uses, and the name.
PeerVerdict verify_chain(const std::vector<Certificate>& chain, const Roots& roots, Instant now,
                         const ExpectedPeer& expected, Times times) {
  const ErrorScope errors;
  PeerVerdict verdict;
  if (chain.empty()) return verdict;
  verdict.fault = PeerFault::kMalformed;
  if (chain.size() > kChainMost || roots.size() > kRootsMost) return verdict;
  const Result<PeerName> name = chain.front().name();
  if (name) verdict.name = *name;
  const StorePtr store = store_of(roots, now);
  const StackPtr others = others_of(chain);
  const StoreContextPtr context(must_have(X509_STORE_CTX_new()));
  must(X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), others.get()));
  set_rules(context.get(), now, expected.kind, times);
  const bool believed = X509_verify_cert(context.get()) == 1;
  const int code = X509_STORE_CTX_get_error(context.get());
  verdict.fault = !believed && code == X509_V_OK ? PeerFault::kMalformed : fault_of(code);
  if (!believed) {
    explain(verdict, chain, roots, context.get(), now);
  } else if (!verdict.name) {
    verdict.fault = chain.front().is_authority() ? PeerFault::kWrongUse : PeerFault::kMalformed;
  }
  return verdict;
}

bool is_revoked(const Certificate& certificate, const PeerName& name, const Revocations& revoked) {
  return revoked.agents.contains(agent_of(name)) || revoked.serials.contains(certificate.serial());
}

template <typename T>
bool differs(const std::optional<T>& expected, const T& is) {
  return expected && *expected != is;
}

PeerFault compare_replica(const ReplicaName& is, const ExpectedPeer& expected) {
  if (differs(expected.job, is.job)) return PeerFault::kOtherJob;
  if (differs(expected.stage, is.stage)) return PeerFault::kOtherStage;
  if (differs(expected.epoch, is.epoch)) return PeerFault::kOtherEpoch;
  if (differs(expected.replica, is.replica)) return PeerFault::kOtherReplica;
  return PeerFault::kNone;
}

PeerFault compare(const PeerName& is, const ExpectedPeer& expected) {
  if (kind_of(is) != expected.kind) return PeerFault::kOtherKind;
  if (differs(expected.agent, agent_of(is))) return PeerFault::kOtherAgent;
  const auto* replica = std::get_if<ReplicaName>(&is.who);
  return replica == nullptr ? PeerFault::kNone : compare_replica(*replica, expected);
}

bool has_host(const Certificate& certificate, const std::string& host) {
  const ErrorScope errors;
  X509* x509 = certificate.get();
  if (is_ip_address(host)) return X509_check_ip_asc(x509, host.c_str(), 0) == 1;
  constexpr unsigned kFlags = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS;
  return X509_check_host(x509, host.data(), host.size(), kFlags, nullptr) == 1;
}

}  // namespace

ExpectedPeer expect_exactly(const PeerName& name) {
  ExpectedPeer expected{.cluster = name.cluster, .kind = kind_of(name)};
  if (agent_of(name)) expected.agent = agent_of(name);
  if (const auto* replica = std::get_if<ReplicaName>(&name.who)) {
    expected.job = replica->job;
    expected.stage = replica->stage;
    expected.epoch = replica->epoch;
    expected.replica = replica->replica;
  }
  return expected;
}

PeerVerdict verify_peer(const std::vector<Certificate>& chain, const Roots& roots,
                        const Revocations& revoked, Instant now, const ExpectedPeer& expected) {
  PeerVerdict verdict = verify_chain(chain, roots, now, expected, Times::kChecked);
  if (!verdict.ok()) return verdict;
  if (verdict.name->cluster != expected.cluster) {
    verdict.fault = PeerFault::kOtherCluster;
  } else if (is_revoked(chain.front(), *verdict.name, revoked)) {
    verdict.fault = PeerFault::kRevoked;
  } else {
    verdict.fault = compare(*verdict.name, expected);
  }
  if (verdict.ok() && expected.host && !has_host(chain.front(), *expected.host)) {
    verdict.fault = PeerFault::kOtherHost;
  }
  return verdict;
}

PeerVerdict verify_pinned(const std::vector<Certificate>& chain, const Hash256& pin, Instant now,
                          const ExpectedPeer& expected) {
  Roots roots;
  for (const Certificate& each : chain) {
    if (roots.empty() && each.is_authority() && each.fingerprint() == pin) {
      roots.push_back({each, each.not_after()});
    }
  }
  ExpectedPeer wanted = expected;
  if (wanted.cluster.text.empty() && !chain.empty()) {
    if (const auto name = chain.front().name()) wanted.cluster = name->cluster;
  }
  PeerVerdict verdict = verify_peer(chain, roots, {}, now, wanted);
  if (verdict.fault == PeerFault::kForeignCa) {
    verdict.our_cas = {pin};
    verdict.their_ca = foreign_ca(chain, verdict.our_cas);
  }
  return verdict;
}

PeerVerdict verify_issued(const std::vector<Certificate>& chain, const Roots& roots,
                          const Revocations& revoked, const ClusterName& cluster, Instant now) {
  const ExpectedPeer expected{.cluster = cluster, .kind = PeerKind::kAgent};
  PeerVerdict verdict = verify_chain(chain, roots, now, expected, Times::kPassedOver);
  if (!verdict.ok()) return verdict;
  if (verdict.name->cluster != cluster) {
    verdict.fault = PeerFault::kOtherCluster;
  } else if (is_revoked(chain.front(), *verdict.name, revoked)) {
    verdict.fault = PeerFault::kRevoked;
  }
  return verdict;
}

}  // namespace shoal::identity
