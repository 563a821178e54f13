#include "coordinator/service/agent_door.h"

#include <utility>

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace shoal::coordinator {
namespace {

constexpr unsigned kLookEveryS = 1;

std::string certificate_of(const grpc::ServerContextBase& context) {
  const auto authentication = context.auth_context();
  if (authentication == nullptr) return {};
  const auto found = authentication->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  return found.empty() ? std::string() : std::string(found.front().data(), found.front().size());
}

// Called at the end of a handshake, before a byte of HTTP/2. gRPC could refuse by itself, but such
// a refusal would not be counted. A revoked machine passes, so that its call can answer with the
// reason.
class HandshakeVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  HandshakeVerifier(const Machines& machines, Refusals& refusals)
      : machines_(machines), refusals_(refusals) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* verdict) override {
    const grpc::string_ref shown = request->peer_cert();
    RefusalReason why{};
    const auto caller = machines_.admit({shown.data(), shown.size()}, &why);
    if (caller.ok() || why == RefusalReason::kRevoked) return true;
    refusals_.count(Port::kAgents, why);
    *verdict = {grpc::StatusCode::UNAUTHENTICATED, to_string(caller.error())};
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const Machines& machines_;
  Refusals& refusals_;
};

class MachineDoor final : public AgentDoor {
 public:
  MachineDoor(Machines& machines, Refusals& refusals) : machines_(machines), refusals_(refusals) {}

  std::shared_ptr<grpc::ServerCredentials> credentials() const override {
    namespace experimental = grpc::experimental;
    const ServerFiles files = machines_.files();
    auto provider = std::make_shared<experimental::FileWatcherCertificateProvider>(
        files.key, files.certificate, files.roots, kLookEveryS);
    experimental::TlsServerCredentialsOptions options(provider);
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    // The verifier below does verify it, and sees who shows none.
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
    options.set_certificate_verifier(
        experimental::ExternalCertificateVerifier::Create<HandshakeVerifier>(machines_, refusals_));
    return experimental::TlsServerCredentials(options);
  }
  Result<Caller> admit(const grpc::ServerContextBase& context) const override {
    RefusalReason why{};
    auto caller = machines_.admit(certificate_of(context), &why);
    if (!caller.ok()) {
      refusals_.count(Port::kAgents, why);
      refusals_.tell(kRefusedAgent, context.peer(), to_string(caller.error()));
    }
    return caller;
  }
  Status admit_folder(const Caller& caller, const std::string& uid,
                      const std::string& name) override {
    Status same = machines_.admit_folder(caller, uid, name);
    if (!same.ok() && same.error().code == Code::kPermissionDenied) {
      refusals_.count(Port::kAgents, RefusalReason::kOtherMember);
      refusals_.tell(kRefusedAgent, to_string(caller.machine), to_string(same.error()));
    }
    return same;
  }

 private:
  Machines& machines_;
  Refusals& refusals_;
};

}  // namespace

std::shared_ptr<AgentDoor> make_agent_door(Machines& machines, Refusals& refusals) {
  return std::make_shared<MachineDoor>(machines, refusals);
}

}  // namespace shoal::coordinator
