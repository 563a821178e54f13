// See identities.h.
#include "bench/streams/identities.h"

#include "identity/asio_ssl.h"
#include "identity/authority.h"
#include "identity/request.h"
#include "identity/tls_context.h"
#include "threads/clock.h"

namespace shoal::bench {
namespace {

std::string pem_of(const identity::Credentials& own) {
  std::string text = own.certificate.pem();
  for (const auto& each : own.chain) text += each.pem();
  return text;
}

wire::stream::TlsContexts contexts_of(const identity::Authority& ca,
                                      const identity::Credentials& own) {
  const auto trust =
      std::make_shared<const identity::Trust>(identity::Beliefs{ca.roots(unix_now()), {}});
  const identity::ExpectedPeer any{.cluster = ca.cluster()};
  auto server = identity::make_tls_context(identity::MutualServer{own, trust, any}, unix_now);
  auto client = identity::make_tls_context(identity::Client{own, trust, any}, unix_now);
  return {std::move(server).value(), std::move(client).value()};
}

Identity make_identity(const identity::Authority& ca, std::uint64_t n) {
  const auto key = identity::PrivateKey::make(), server_key = identity::PrivateKey::make();
  const auto request = identity::SigningRequest::parse(identity::make_request(key));
  const identity::ReplicaName name{AgentId(n), JobId(1), 0, 0, ReplicaId(n)};
  const identity::Credentials own{key, ca.issue_replica(*request, name, unix_now()).value(),
                                  ca.chain(unix_now())};
  const identity::Credentials server{server_key,
                                     ca.issue_server(server_key, {"localhost"}, unix_now()).value(),
                                     ca.chain(unix_now())};
  return {ca.cluster(),           name,        own,       contexts_of(ca, own),
          ca.certificate().pem(), pem_of(own), key.pem(), pem_of(server),
          server_key.pem()};
}

}  // namespace

std::vector<Identity> make_identities(int count) {
  const auto ca = identity::Authority::make(identity::make_cluster_name(), unix_now());
  std::vector<Identity> identities;
  for (int i = 0; i < count; ++i) {
    identities.push_back(make_identity(ca, static_cast<std::uint64_t>(i) + 1));
  }
  return identities;
}

}  // namespace shoal::bench
