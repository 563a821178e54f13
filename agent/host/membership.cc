#include "agent/host/membership.h"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "base/digest.h"
#include "base/text.h"
#include "identity/join_token.h"
#include "identity/private_file.h"
#include "identity/renewal.h"
#include "identity/trust.h"
#include "threads/clock.h"
#include "threads/sleep.h"

namespace shoal::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kLookMost = seconds(60);  // clocks are set, hosts sleep: looks again so often
constexpr Duration kRetryFirst = seconds(1), kRetryMost = seconds(60);

std::int64_t unix_ms(Instant at) { return at.ns / 1'000'000; }

std::uint64_t seed_of(const std::string& uid) { return Digester().add(uid).finish().low; }

// A certificate is valid from a little before it was issued. Counting from there would make a short
// life look longer.
identity::Validity life_of(const identity::Certificate& certificate) {
  const Instant issued = certificate.not_before() + identity::kBackdate;
  return {std::min(issued, certificate.not_after()), certificate.not_after()};
}

}  // namespace

Membership::Membership(MembershipOptions options, identity::PrivateKey key)
    : options_(std::move(options)),
      key_(std::move(key)),
      pauses_(kRetryFirst, kRetryMost),
      prng_(seed_of(options_.uid)) {}

Membership::~Membership() = default;

Result<std::shared_ptr<Membership>> Membership::open(MembershipOptions options) {
  auto key = identity::PrivateKey::load_or_make(options.folder + "/machine.key");
  if (!key) return key.error();
  if (!options.join_token.empty()) {
    if (auto token = identity::parse_join_token(options.join_token); !token) {
      Error error = token.error();
      error.field = "--join-token";
      return error;
    }
  }
  std::shared_ptr<Membership> membership(
      new Membership(std::move(options), std::move(key).value()));
  if (Status loaded = membership->load(); !loaded.ok()) return loaded.error();
  if (!membership->held() && membership->options_.join_token.empty()) {
    return Error{Code::kValidation, "is required: this host has not joined the cluster yet",
                 "--join-token", "make one on the coordinator's host: shoal token create --join"};
  }
  membership->renewing_ = std::jthread(
      [self = membership.get()](const std::stop_token& stop) { self->keep_renewing(stop); });
  return membership;
}

// Empty when this host has not joined yet.
Status Membership::load() {
  const std::string chain_file = options_.folder + "/machine.pem";
  auto chain = identity::read_private_file(chain_file);
  if (!chain && chain.error().code == Code::kNotFound) return {};
  if (!chain) return chain.error();
  auto roots = identity::read_private_file(options_.folder + "/machine.roots");
  if (!roots) return roots.error();
  auto held = read_held(*chain, *roots);
  if (!held) {
    Error error = held.error();
    error.field = chain_file;
    error.remedy = "delete machine.* and agent_id in that folder, and join with a new token";
    return error;
  }
  const MutexLock guard(mutex_);
  held_ = std::move(held).value();
  return {};
}

std::optional<Membership::Believed> Membership::believes() const {
  const auto known = held();
  if (!known) return std::nullopt;
  return Believed{known->name.cluster, known->trusted};
}

Result<Membership::Held> Membership::read_held(const std::string& chain,
                                               const std::string& roots) const {
  auto certificates = identity::Certificate::parse_chain(chain);
  if (!certificates) return certificates.error();
  auto trusted = identity::Certificate::parse_chain(roots);
  if (!trusted) return trusted.error();
  auto name = certificates->front().name();
  if (!name) return name.error();
  if (certificates->front().key_fingerprint() != key_.public_fingerprint()) {
    return Error{Code::kDataLoss, "is a certificate of another key than machine.key", "", ""};
  }
  identity::Credentials own{
      key_, certificates->front(), {certificates->begin() + 1, certificates->end()}};
  Held held{chain, roots, std::move(own), {}, std::move(name).value()};
  for (const auto& root : *trusted) held.trusted.push_back({root, root.not_after()});
  return held;
}

std::optional<Membership::Held> Membership::held() const {
  const MutexLock guard(mutex_);
  return held_;
}

identity::Client Membership::role_of(const Held& held) const {
  return {held.own,
          std::make_shared<const identity::Trust>(identity::Beliefs{held.trusted, {}}),
          {.cluster = held.name.cluster, .kind = identity::PeerKind::kCoordinator}};
}

Status Membership::ensure() {
  const MutexLock calling(calling_);
  const auto now_held = held();
  if (!now_held) return enrol();
  if (unix_now() < now_held->own.certificate.not_after()) return {};
  return renew(*now_held);
}

// The coordinator is known by the hash in the token before it is told the secret.
Status Membership::enrol() {
  const auto token = identity::parse_join_token(options_.join_token);
  if (!token) return token.error();
  const Json body{{"token", options_.join_token},
                  {"csr", identity::make_request(key_)},
                  {"uid", options_.uid},
                  {"name", options_.name},
                  {"clock_unix_ms", unix_ms(unix_now())}};
  const identity::Client role{
      std::nullopt, token->ca, {.cluster = {}, .kind = identity::PeerKind::kCoordinator}};
  const auto answer =
      post_over_tls({options_.enrol, role}, "/api/v1/enrol", body.dump(), kCallLimit);
  if (!answer) return answer.error();
  return take(*answer);
}

Status Membership::renew(const Held& held) {
  const std::string request = identity::make_request(key_);
  const auto parsed = identity::SigningRequest::parse(request);
  if (!parsed) return parsed.error();
  const std::string proof = identity::prove_old_key(key_, held.name.cluster, *parsed);
  const Json body{{"chain", held.chain},
                  {"csr", request},
                  {"proof", hex_of(proof)},
                  {"clock_unix_ms", unix_ms(unix_now())}};
  identity::Client role = role_of(held);
  role.own.reset();  // an expired one would not be believed, and the port asks for none
  const auto answer =
      post_over_tls({options_.enrol, std::move(role)}, "/api/v1/renew", body.dump(), kCallLimit);
  if (!answer) return answer.error();
  return take(*answer);
}

// The roots first: the certificate may be of a new one.
Status Membership::take(const std::string& answer) {
  const Json json = Json::parse(answer, nullptr, false);
  const auto text = [&](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  auto held = read_held(text("chain"), text("roots"));
  if (!held) return held.error();
  if (Status s = identity::write_private_file(options_.folder + "/machine.roots", held->roots);
      !s.ok()) {
    return s;
  }
  if (Status s = identity::write_private_file(options_.folder + "/machine.pem", held->chain);
      !s.ok()) {
    return s;
  }
  spdlog::info("holds a certificate as {} until {}", to_string(held->name),
               identity::to_utc(held->own.certificate.not_after()));
  const MutexLock guard(mutex_);
  held_ = std::move(held).value();
  return {};
}

std::shared_ptr<grpc::ChannelCredentials> Membership::credentials() const {
  const auto now_held = held();
  SHOAL_CHECK(now_held.has_value(), "a channel before the first certificate");
  return grpc::SslCredentials({.pem_root_certs = now_held->roots,
                               .pem_private_key = key_.pem(),
                               .pem_cert_chain = now_held->chain});
}

std::optional<Error> Membership::fault() {
  const auto now_held = held();
  if (!now_held) return std::nullopt;
  const auto fault = fault_of_handshake({options_.coordinator, role_of(*now_held)}, kCallLimit / 2);
  if (!fault || fault->code != Code::kUnauthenticated) return fault;
  const MutexLock calling(calling_);
  const Status renewed = renew(*now_held);
  const bool clocks = !renewed.ok() && renewed.error().field == "clock";
  return clocks ? renewed.error() : *fault;
}

// A renewal that is refused for good is tried like any other: the operator who revoked this agent
// may have brought back the state of before, and the session says it anyway.
void Membership::keep_renewing(const std::stop_token& stop) {
  Duration pause;
  do {
    pause = kLookMost;
    const auto now_held = held();
    if (!now_held) {
      pause = kRetryFirst;
      continue;
    }
    const auto plan = identity::plan_renewal(life_of(now_held->own.certificate),
                                             seed_of(options_.uid), unix_now());
    if (plan.step == identity::RenewalStep::kKeep) {
      pause = std::min(kLookMost, plan.renew_at - unix_now());
      continue;
    }
    const MutexLock calling(calling_);
    if (Status renewed = renew(*now_held); renewed.ok()) {
      pauses_.reset();
      pause = milliseconds(10);
    } else {
      pause = pauses_.next(prng_);
      spdlog::warn("certificate not renewed: {}", to_string(renewed.error()));
    }
  } while (sleep_unless_stopped(std::max(pause, milliseconds(10)), stop));
}

}  // namespace shoal::agent
