// The gRPC side of the coordinator: the streams of agents, the transfer of checkpoint files and
// questions about logs (log_query_broker.h), on one port, behind limits (agent_acceptor.h) and
// certificates (agent_door.h). It decides nothing: messages go to the runtime as inputs, and the
// runtime sends its answers through AgentPort.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/service/agent_door.h"
#include "coordinator/service/agent_port.h"
#include "coordinator/service/checkpoint_files.h"
#include "coordinator/service/connection_limits.h"
#include "coordinator/service/file_transfer.h"
#include "coordinator/service/machines/machines.h"
#include "coordinator/service/shelves/checkpoint_bucket.h"

namespace shoal::coordinator {

// Makes a certificate for a replica of a machine that was let in; the request in PEM.
using Certify = std::function<Result<IssuedCertificate>(const identity::ReplicaName& replica,
                                                        const std::string& request)>;

struct AgentServiceOptions {
  std::string bind = "127.0.0.1:7071";  // port 0 picks a free one
  std::shared_ptr<AgentDoor> door;      // who may call
  Certify certify = nullptr;            // none: replicas get no certificates
  FileTransfer* files = nullptr;        // uploaded ones, for agents; none: there are none
  // Agents whose replicas are no longer trusted; named in every message to the other agents.
  std::function<std::vector<AgentId>()> revoked = nullptr;
  std::chrono::milliseconds hello_limit{10'000};     // open stream until Hello
  std::chrono::milliseconds log_limit{5'000};        // question about logs until its answer
  std::chrono::milliseconds transfer_limit{60'000};  // files in which nothing moves
  std::size_t sessions_max = 20'000;
  CheckpointBucket* bucket = nullptr;  // where new checkpoints go; null: into `files`
  ConnectionLimitOptions connections = {};
  // A connection was evicted, late or over the limits. Any thread; must not block.
  std::function<void()> on_refused_connection = [] {};
};

class AgentService final : public AgentPort {
 public:
  // Binds and serves. `inputs`, `files` and the bucket must outlive the service. kConflict: the
  // port is in use.
  static Result<std::unique_ptr<AgentService>> start(
      AgentServiceOptions options, InputPort& inputs, CheckpointFiles& files,
      const std::vector<CheckpointRecord>& checkpoints);
  ~AgentService() override;

  // Ends the sessions of a machine that is revoked.
  void end_sessions_of(AgentId machine);

  std::string address() const;          // with the port that was really bound
  void expect_own(std::uint16_t port);  // AgentAcceptor::expect_own()
  void stop();  // ends all streams with UNAVAILABLE; a second call does nothing

  void send(ConnectionId connection, const ToAgent& message) override;
  void disconnect(ConnectionId connection) override;
  void measure_line(ConnectionId connection) override;
  void delete_checkpoint_files(CheckpointId checkpoint) override;
  void checkpoint_changed(const CheckpointRecord& checkpoint) override;
  void ask_logs(AgentId agent, const LogQuery& query,
                std::function<void(Result<LogPage>)> done) override;

 private:
  struct Impl;
  explicit AgentService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::coordinator
