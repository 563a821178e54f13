#include "coordinator/service/agent_door.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
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

class MachineDoor final : public AgentDoor {
 public:
  explicit MachineDoor(Machines& machines) : machines_(machines) {}

  std::shared_ptr<grpc::ServerCredentials> credentials() const override {
    const ServerFiles files = machines_.files();
    auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
        files.key, files.certificate, files.roots, kLookEveryS);
    grpc::experimental::TlsServerCredentialsOptions options(provider);
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    return grpc::experimental::TlsServerCredentials(options);
  }
  Result<Caller> admit(const grpc::ServerContextBase& context) const override {
    return machines_.admit(certificate_of(context));
  }
  Status admit_folder(const Caller& caller, const std::string& uid,
                      const std::string& name) override {
    return machines_.admit_folder(caller, uid, name);
  }

 private:
  Machines& machines_;
};

}  // namespace

std::shared_ptr<AgentDoor> make_agent_door(Machines& machines) {
  return std::make_shared<MachineDoor>(machines);
}

}  // namespace shoal::coordinator
