#include "identity/authority.h"

#include <algorithm>
#include <utility>

#include <openssl/crypto.h>

#include "identity/openssl.h"
#include "identity/private_file.h"
#include "identity/secret.h"

namespace shoal::identity {
namespace {

constexpr char kRestore[] =
    "put the file back from a backup of the data folder; else rotate the CA and let all agents "
    "join "
    "again";

Error given_error(const std::string& what, const char* remedy) {
  return {Code::kInvalidArgument, what, "ca", remedy};
}

Error with_field(Error error, const std::string& field) {
  error.field = field;
  return error;
}

Instant whole_seconds(Instant instant) { return Instant{instant.ns - instant.ns % 1'000'000'000}; }

// Whether its name constraint, if it has one, lets it sign for the cluster: "permitted" URIs.
bool may_sign_for(const Certificate& ca, const ClusterName& cluster) {
  const ErrorScope errors;
  int critical = -1;
  const NameConstraintsPtr constraints(static_cast<NAME_CONSTRAINTS*>(
      X509_get_ext_d2i(ca.get(), NID_name_constraints, &critical, nullptr)));
  if (!constraints) return critical == -1;  // -1: there is none
  const PrivateKey key = PrivateKey::make();
  CertificatePlan plan{.key = key.get(), .common_name = "probe", .issuer = &ca};
  plan.member = MemberPart{{cluster, CoordinatorName()}, {}};
  const Certificate probe = issue(plan, key);
  X509_check_purpose(probe.get(), -1, 0);  // reads its extensions; the check would see none
  return NAME_CONSTRAINTS_check(probe.get(), constraints.get()) == X509_V_OK;
}

Status check_given(const Certificate& ca, const PrivateKey& key, const ClusterName& cluster,
                   Instant now) {
  if (!ca.is_authority()) {
    return given_error("the certificate may not sign certificates",
                       "give a CA's certificate: CA:TRUE, key usage keyCertSign");
  }
  if (X509_get_pathlen(ca.get()) == 0) {
    return given_error("the CA has a path length of 0, with which it could never be rotated",
                       "give one with a path length of 1 or more");
  }
  if (ca.key_fingerprint() != key.public_fingerprint()) {
    return given_error("the key is not the one of the CA's certificate",
                       "give the certificate and the key that belong together");
  }
  if (!may_sign_for(ca, cluster)) {
    return given_error(
        "the CA's name constraint does not permit the URIs of cluster " + cluster.text,
        "give a CA that permits them, or one without a constraint");
  }
  if (now < ca.not_before() || now >= ca.not_after()) {
    return given_error("the CA is valid from " + to_utc(ca.not_before()) + " to " +
                           to_utc(ca.not_after()) + ", and now it is " + to_utc(now),
                       "check this host's clock, or give another CA");
  }
  return {};
}

}  // namespace

ClusterName make_cluster_name() { return {"c" + make_secret().substr(0, 16)}; }

Authority Authority::make(const ClusterName& cluster, Instant now) {
  SHOAL_CHECK(parse_cluster_name(cluster.text).ok());
  const PrivateKey key = PrivateKey::make();
  // Two CAs of one cluster differ in their subjects, so that a rotation's chains are unambiguous.
  const std::string tag = to_hex(key.public_fingerprint()).substr(0, 8);
  const Validity validity{whole_seconds(now - kBackdate), whole_seconds(now + kAuthorityLife)};
  CertificatePlan plan{.key = key.get(), .validity = validity};
  plan.common_name = "Shoal CA " + cluster.text + " " + tag;
  plan.path_length = 1;
  return Authority(cluster, key, issue(plan, key));
}

Result<Authority> Authority::given(std::string_view certificate_pem, std::string_view key_pem,
                                   const ClusterName& cluster, Instant now) {
  auto chain = Certificate::parse_chain(certificate_pem);
  if (!chain) return with_field(chain.error(), "ca");
  auto key = PrivateKey::parse_given(key_pem);
  if (!key) return with_field(key.error(), "ca");
  if (const Status suits = check_given(chain->front(), *key, cluster, now); !suits) {
    return suits.error();
  }
  return Authority(cluster, std::move(*key), std::move(chain->front()));
}

// The file: its key, its certificate, and during a rotation the cross certificate and the old root.
Result<Authority> Authority::parse(std::string_view pem, const ClusterName& cluster) {
  auto key = PrivateKey::parse_given(pem);
  if (!key) return key.error();
  auto chain = Certificate::parse_chain(pem);
  if (!chain) return chain.error();
  if (chain->size() != 1 && chain->size() != 3) {
    return given_error("holds an unknown number of certificates", kRestore);
  }
  Authority authority(cluster, std::move(*key), chain->front());
  const Instant while_valid = authority.certificate_.not_before();
  if (const Status suits = check_given(chain->front(), authority.key_, cluster, while_valid);
      !suits) {
    return suits.error();
  }
  if (chain->size() == 1) return authority;
  const Certificate &cross = (*chain)[1], &root = (*chain)[2];
  if (cross.key_fingerprint() != authority.certificate_.key_fingerprint() ||
      !cross.is_signed_by(root)) {
    return given_error("its cross certificate does not belong to it", kRestore);
  }
  authority.past_ = Past{cross, root};
  return authority;
}

Result<Authority> Authority::load(const std::string& path, const ClusterName& cluster) {
  Result<std::string> pem = read_private_file(path);
  if (!pem) return pem.error();
  Result<Authority> authority = parse(*pem, cluster);
  OPENSSL_cleanse(pem->data(), pem->size());
  if (authority) return authority;
  return with_field(authority.error(), path);
}

Status Authority::save(const std::string& path) const {
  std::string pem = key_.pem() + certificate_.pem();
  if (past_) pem += past_->cross.pem() + past_->root.pem();
  Status written = write_private_file(path, pem);
  OPENSSL_cleanse(pem.data(), pem.size());
  return written;
}

Result<Authority> Authority::load_or_make(const std::string& path, const ClusterName& cluster,
                                          const std::optional<Hash256>& known, Instant now) {
  Result<Authority> loaded = load(path, cluster);
  if (loaded && known && loaded->fingerprint() != *known) {
    return Error{Code::kConflict,
                 "holds the CA " + to_hex(loaded->fingerprint()) + ", but this cluster's is " +
                     to_hex(*known),
                 path, kRestore};
  }
  if (loaded || loaded.error().code != Code::kNotFound) return loaded;
  if (known) {
    return Error{Code::kDataLoss, "the CA of this cluster is lost", path, kRestore};
  }
  Authority made = make(cluster, now);
  if (const Status saved = made.save(path); !saved) return saved.error();
  return made;
}

Result<Certificate> Authority::issue_member(EVP_PKEY* key, const MemberPart& member, Duration life,
                                            Instant now) const {
  SHOAL_CHECK(is_valid(member.name), to_string(member.name));
  if (now >= certificate_.not_after()) {
    return Error{Code::kUnavailable,
                 "the cluster's CA expired at " + to_utc(certificate_.not_after()), "ca",
                 "rotate the CA, or check the coordinator's clock"};
  }
  if (now < certificate_.not_before()) {
    return Error{Code::kUnavailable,
                 "the cluster's CA begins at " + to_utc(certificate_.not_before()) +
                     ", and the coordinator's clock says " + to_utc(now),
                 "ca", "set the coordinator's clock"};
  }
  const Instant from = std::max(now - kBackdate, certificate_.not_before());
  const Instant to = std::min(now + life, certificate_.not_after());
  CertificatePlan plan{.key = key, .validity = {whole_seconds(from), whole_seconds(to)}};
  plan.common_name = agent_of(member.name) ? to_string(agent_of(member.name)) : "coordinator";
  plan.issuer = &certificate_;
  plan.member = member;
  return issue(plan, key_);
}

Result<Certificate> Authority::issue_agent(const SigningRequest& request, AgentId agent,
                                           Instant now, Duration life) const {
  return issue_member(request.public_key(), {{cluster_, agent}, {}}, life, now);
}

Result<Certificate> Authority::issue_replica(const SigningRequest& request,
                                             const ReplicaName& replica, Instant now) const {
  return issue_member(request.public_key(), {{cluster_, replica}, {}}, kReplicaLife, now);
}

Result<Certificate> Authority::issue_server(const PrivateKey& key,
                                            const std::vector<std::string>& hosts,
                                            Instant now) const {
  if (hosts.empty() || hosts.size() > kHostsMost) {
    return Error{Code::kValidation,
                 std::to_string(hosts.size()) + " names of the coordinator's host", "host",
                 "give 1 to " + std::to_string(kHostsMost)};
  }
  for (const std::string& host : hosts) {
    if (is_host(host)) continue;
    return Error{Code::kValidation, quoted(host) + " is neither a DNS name nor an IP address",
                 "host", "give the name without scheme and port"};
  }
  return issue_member(key.get(), {{cluster_, CoordinatorName()}, hosts}, kServerLife, now);
}

Result<Authority> Authority::rotated(const Authority& next, Duration overlap, Instant now) const {
  if (next.cluster_ != cluster_ ||
      next.certificate_.key_fingerprint() == certificate_.key_fingerprint()) {
    return Error{Code::kConflict, "the new CA has the old one's key, or is of another cluster",
                 "ca", "make or give a CA with a key of its own"};
  }
  Authority result(cluster_, next.key_, next.certificate_);
  const Instant to = std::min(now + overlap, certificate_.not_after());
  if (to <= now) return result;
  CertificatePlan plan{.key = next.key_.get()};
  plan.validity = {std::max(whole_seconds(now - kBackdate), certificate_.not_before()),
                   whole_seconds(to)};
  plan.subject = &next.certificate_;
  plan.issuer = &certificate_;
  plan.path_length = 0;
  result.past_ = Past{issue(plan, key_), certificate_};
  return result;
}

std::vector<Certificate> Authority::chain(Instant now) const {
  if (!past_ || past_->is_over(now)) return {certificate_};
  return {past_->cross, certificate_, past_->root};
}

Roots Authority::roots(Instant now) const {
  Roots roots = {{certificate_, certificate_.not_after()}};
  if (past_ && !past_->is_over(now)) roots.push_back({past_->root, past_->cross.not_after()});
  return roots;
}

}  // namespace shoal::identity
