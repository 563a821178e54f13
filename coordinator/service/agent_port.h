// The seam between the runtime and the streams of agents: what each may ask of the other.
// Implemented by AgentService (agent_service.h) and Runtime (runtime.h), so that each can be tested
// without the other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/log_lines.h"
#include "coordinator/core/state/io.h"

namespace shoal::coordinator {

// What the runtime asks of the agents' side; called on the delivery thread, must not block on a
// peer.
class AgentPort {
 public:
  virtual ~AgentPort() = default;
  virtual void send(ConnectionId connection, const ToAgent& message) = 0;  // unknown: dropped
  virtual void disconnect(ConnectionId connection) = 0;    // after what was sent before
  virtual void measure_line(ConnectionId connection) = 0;  // as MeasureHostLine; unknown: dropped
  virtual void delete_checkpoint_files(CheckpointId checkpoint) = 0;
  virtual void checkpoint_changed(const CheckpointRecord& checkpoint) = 0;  // is durable now
  // `done` runs once, within seconds, on any thread.
  virtual void ask_logs(AgentId agent, const LogQuery& query,
                        std::function<void(Result<LogPage>)> done) = 0;
};

// Where a replica is.
struct ReplicaPlace {
  AgentId agent;
  JobId job;
  StageIndex stage = 0;
  std::int64_t epoch = 0;
  CheckpointId source;     // what it loads or loaded from; none: not a checkpoint
  bool continues = false;  // it loads all that its stage has there; else weights alone, to begin
  bool operator==(const ReplicaPlace&) const = default;
};

// What the agents' side tells the runtime; thread-safe, never blocks.
class InputPort {
 public:
  virtual ~InputPort() = default;
  // False when the queue or the agent's share of it is full, or the runtime stops: the caller
  // closes the stream, the agent comes back. Hang-ups and the ends of uploads are always taken.
  virtual bool post(Input input) = 0;
  // Whether this agent has this replica, or one of this job, that has not ended.
  virtual bool has_replica(AgentId agent, ReplicaId replica) = 0;
  virtual std::int64_t replicas_of(AgentId agent) = 0;  // how many it has that have not ended
  virtual bool works_for(AgentId agent, JobId job) = 0;
  // Whether it has a replica of another job than `job`, which wrote this checkpoint, that begins
  // from it.
  virtual bool begins_from(AgentId agent, CheckpointId checkpoint, JobId job) = 0;
  // Whether it has a replica, of whatever job, that continues this checkpoint.
  virtual bool continues_from(AgentId agent, CheckpointId checkpoint) = 0;
  virtual void count_session() = 0;
  virtual void count_refused_message() = 0;
  // The place of a replica that has not ended, as stored.
  virtual std::optional<ReplicaPlace> place_of(ReplicaId replica) = 0;
};

}  // namespace shoal::coordinator
