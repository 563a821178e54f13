// Decides who may call on the port for agents. The handshake requires and verifies a machine's
// certificate before any HTTP/2 is parsed; each call is then checked against the registry, which
// knows who was revoked. Refusals are counted. gRPC takes the coordinator's certificate, key and
// roots from files (machines/server_files.h) and looks for new ones every second.
//
// Threads: all methods may be called by any thread.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "coordinator/service/machines/machines.h"
#include "coordinator/service/people/refusals.h"

namespace shoal::coordinator {

// The seam between the service and its credentials, so that what comes after the door can be tested
// without one.
class AgentDoor {
 public:
  virtual ~AgentDoor() = default;
  virtual std::shared_ptr<grpc::ServerCredentials> credentials() const = 0;
  virtual Result<Caller> admit(const grpc::ServerContextBase& context) const = 0;
  // Checks that the data folder of a session is the one of its certificate.
  virtual Status admit_folder(const Caller& caller, const std::string& uid,
                              const std::string& name) = 0;
};

// Both must outlive it.
std::shared_ptr<AgentDoor> make_agent_door(Machines& machines, Refusals& refusals);

}  // namespace shoal::coordinator
