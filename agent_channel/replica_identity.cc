// See replica_identity.h.
#include "agent_channel/replica_identity.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "base/backoff.h"
#include "base/digest.h"
#include "identity/asio_ssl.h"
#include "identity/request.h"
#include "identity/tls_context.h"
#include "identity/trust.h"
#include "proto/trainer.grpc.pb.h"
#include "threads/clock.h"
#include "wire/metadata.h"

namespace shoal::agent_channel {
namespace {

constexpr auto kAskLimit = std::chrono::seconds(6);  // the agent waits for five
constexpr Duration kRetryFirst = milliseconds(50), kRetryMax = seconds(5);
constexpr Duration kLookMost = seconds(60);

std::chrono::nanoseconds wait_of(Duration duration) {
  return std::chrono::nanoseconds(duration.ns);
}

Error error_of(const grpc::Status& status) {
  const bool refused = status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
  return {refused ? Code::kPermissionDenied : Code::kUnavailable,
          "no certificate for this replica: " + status.error_message(), "", ""};
}

Result<identity::Credentials> read_credentials(const identity::PrivateKey& key,
                                               const std::string& chain) {
  auto certificates = identity::Certificate::parse_chain(chain);
  if (!certificates) return certificates.error();
  const identity::Certificate own = certificates->front();
  certificates->erase(certificates->begin());
  return identity::Credentials{key, own, std::move(*certificates)};
}

Result<identity::Roots> read_roots(const std::string& text) {
  const auto certificates = identity::Certificate::parse_chain(text);
  if (!certificates) return certificates.error();
  identity::Roots roots;
  for (const auto& each : *certificates) roots.push_back({each, each.not_after()});
  return roots;
}

}  // namespace

ReplicaIdentity::ReplicaIdentity(const ControlOptions& line, Use use, Complain complain)
    : line_(line),
      use_(std::move(use)),
      complain_(std::move(complain)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

ReplicaIdentity::~ReplicaIdentity() {
  thread_.request_stop();
  changed_.notify_all();
}

void ReplicaIdentity::heard(const ToTrainer& command) {
  const MutexLock lock(mutex_);
  const Wanted before = wanted_;
  if (const auto* load = std::get_if<LoadReplica>(&command)) {
    wanted_ = {load->assign.replica, load->assign.source.key.epoch};
  } else if (const auto* open = std::get_if<ToReplica<OpenRound>>(&command)) {
    if (open->replica == wanted_.replica) wanted_.epoch = open->body.key.epoch;
  }
  if (wanted_ != before) changed_.notify_all();
}

void ReplicaIdentity::revoke(const std::vector<AgentId>& agents) {
  const MutexLock lock(mutex_);
  const std::size_t before = revoked_.agents.size();
  revoked_.agents.insert(agents.begin(), agents.end());
  if (trust_ && revoked_.agents.size() > before) trust_->set({trust_->get()->roots, revoked_});
}

void ReplicaIdentity::trust_from_now_on(std::shared_ptr<identity::Trust> trust) {
  const MutexLock lock(mutex_);
  trust_ = std::move(trust);
  trust_->set({trust_->get()->roots, revoked_});
}

ReplicaIdentity::Wanted ReplicaIdentity::wait(const Wanted& held, Instant again,
                                              const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    const bool is_new = wanted_.replica && wanted_ != held;
    const Duration left = again - steady_now();
    if (is_new || (wanted_.replica && left <= Duration())) return wanted_;
    const Duration longest = wanted_.replica ? left : kLookMost;
    changed_.wait_for(mutex_, wait_of(longest), [&]() SHOAL_REQUIRES(mutex_) {
      return stop.stop_requested() || (wanted_.replica && wanted_ != held);
    });
  }
  return {};
}

void ReplicaIdentity::run(const std::stop_token& stop) {
  Prng prng(Digester().add(line_.nonce).finish().low);
  Backoff pauses(kRetryFirst, kRetryMax);
  Wanted held;
  Instant again;  // of the steady clock: when it asks in any case
  bool has_complained = false;
  for (Wanted wanted = wait(held, again, stop); wanted.replica; wanted = wait(held, again, stop)) {
    const auto got = ask(wanted.replica);
    if (wanted != held) pauses.reset();
    held = wanted;
    if (got.ok()) trust_from_now_on(got->trust);
    if (got.ok()) use_(got->identity);
    // The coordinator may not have written yet that the job is in that epoch.
    if (got.ok() && got->identity->own.epoch == wanted.epoch) {
      pauses.reset();
      has_complained = false;
      again = steady_now() + std::max(got->lasts / 2, kRetryMax);
      continue;
    }
    again = steady_now() + pauses.next(prng);
    if (!got.ok() && !stop.stop_requested() && !std::exchange(has_complained, true)) {
      complain_(to_string(got.error()) + "; it is tried again");
    }
  }
}

Result<ReplicaIdentity::Held> ReplicaIdentity::ask(ReplicaId replica) const {
  const auto key = identity::PrivateKey::make();
  const auto channel =
      grpc::CreateChannel("unix:" + line_.socket_path, grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAskLimit);
  context.AddMetadata(wire::kTrainerNonceName, line_.nonce);
  v1::CertifyRequest request;
  request.set_replica(replica.n);
  request.set_csr(identity::make_request(key));
  v1::CertifyAnswer answer;
  const grpc::Status status =
      v1::TrainerHost::NewStub(channel)->Certify(&context, request, &answer);
  if (!status.ok()) return error_of(status);
  const auto own = read_credentials(key, answer.chain());
  if (!own) return own.error();
  const auto roots = read_roots(answer.roots());
  if (!roots) return roots.error();
  const auto name = own->certificate.name();
  if (!name) return name.error();
  const auto* who = std::get_if<identity::ReplicaName>(&name->who);
  if (who == nullptr || who->replica != replica) {
    return Error{Code::kIncompatible, "the certificate is for " + to_string(*name), "certificate",
                 "run the same version on all hosts"};
  }
  const auto trust = std::make_shared<identity::Trust>(identity::Beliefs{*roots, {}});
  const identity::ExpectedPeer any{.cluster = name->cluster};
  const auto server =
      identity::make_tls_context(identity::MutualServer{*own, trust, any}, unix_now);
  if (!server) return server.error();
  const auto client = identity::make_tls_context(identity::Client{*own, trust, any}, unix_now);
  if (!client) return client.error();
  return Held{std::make_shared<const outer_opt::PeerIdentity>(
                  outer_opt::PeerIdentity{name->cluster, *who, {*server, *client}, *own}),
              trust, own->certificate.not_after() - unix_now()};
}

}  // namespace shoal::agent_channel
