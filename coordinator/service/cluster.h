// What the REST side may ask of the running coordinator: hand in a command, look at volatile
// numbers, and follow the event stream. runtime.cc implements it; the HTTP code depends on this
// interface only. Every method is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/flat_map.h"
#include "base/log_lines.h"
#include "base/result.h"
#include "coordinator/core/decisions/join_share.h"
#include "coordinator/core/state/agent_health.h"
#include "coordinator/core/state/io.h"
#include "coordinator/meters/meters.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {

struct AgentLive {
  Health health = Health::kRed;
  Instant last_seen;
  Bytes resident;
  std::optional<RelayFigures> relay;  // of an agent that relays
  std::vector<DeviceFailure> failures;
  std::vector<DeviceSample> samples;  // what the drivers of its devices said last
  std::int32_t replicas = 0;          // live ones
  std::string name;
  bool trains = false;  // it has a device other than a reducer's
  AllowedPrograms programs;
  std::string health_reason = {};  // empty: green
  std::int32_t slow_replicas = 0;
  bool late = false;                         // it is connected, and its heartbeat is late
  std::vector<DeviceTrouble> troubles = {};  // of its devices
};

// The newest Progress of each replica, and how old it is.
struct ReplicaLive {
  Progress progress;
  Instant at;
};

// How far a loading replica is, and how fast it progresses.
struct LoadLive {
  JoinReport last;
  JoinShare share;
};

// A copy of a stage that a replica of another one keeps.
struct CopyLive {
  JobId job;
  StageIndex stage = 0;
  ReplicaId keeper;
  RoundNumber round = -1;  // the round that it holds, as its keeper said last; -1: none
};

// The newest PipelineStats of a replica, and how fast its counters grow (moving averages).
struct LinkRate {
  double sent_per_s = 0, received_per_s = 0;  // bytes
};
struct PipelineLive {
  PipelineStats stats;
  Instant at;
  double microbatches_per_s = 0;
  FlatMap<ReplicaId, LinkRate> links;  // by the replica they lead to
};

// How fast a replica computes, by what was promised (core/rounds/speeds.h).
struct SpeedLive {
  AgentId agent;
  double ratio = 0;
  std::string slow;  // how much slower than half of that it is; empty: it is not
};

struct LiveView {
  Instant now;
  std::int64_t boot_epoch = 0;
  FlatMap<AgentId, AgentLive> agents;
  FlatMap<ReplicaId, ReplicaLive> replicas;
  FlatMap<ReplicaId, PipelineLive> pipeline;  // stages > 1 only
  FlatMap<ReplicaId, LoadLive> loads;         // only loads that have begun to move
  FlatMap<ReplicaId, SpeedLive> speeds;       // only those of which it is known
  FlatMap<JobId, double> tokens_per_s;        // token_meter.h; only jobs where it is known
  FlatMap<ReplicaId, CopyLive> copies;        // by the id of the copy
  FlatMap<JobId, std::shared_ptr<const PlacementReport>> placements;  // of jobs that train
};

// No replica of the job trains.
inline bool holds_nothing(JobPhase phase) {
  return is_terminal(phase) || phase == JobPhase::kPaused || phase == JobPhase::kQueued;
}

// Tokens that the replicas of a job have trained in its open round. Every token passes through
// every stage. `committed`: the round before.
inline Tokens open_tokens(const FlatMap<ReplicaId, ReplicaLive>& replicas,
                          const RoundKey& committed, std::size_t stages) {
  const RoundKey open{committed.job, committed.epoch, committed.round + 1};
  std::int64_t sum = 0;
  for (const auto& [id, replica] : replicas) {
    if (replica.progress.key == open) sum += replica.progress.tokens.count();
  }
  return Tokens(sum / static_cast<std::int64_t>(stages));
}

// Why the coordinator cannot serve right now; empty: ready.
struct Readiness {
  std::vector<std::pair<std::string, std::string>> problems;  // check, sentence
};

// What the files of all checkpoints take now.
struct CheckpointSpace {
  Bytes stored, pending;  // pending: announced and not stored yet
};

class Cluster {
 public:
  virtual ~Cluster() = default;

  struct Answer {
    Result<JobId> result;
    std::vector<FieldError> fields;
    std::shared_ptr<const PlacementDecision> plan = nullptr;  // of an accepted dry run
    std::string forbidden =
        {};  // named objects that exist, but are not the caller's; for the audit
  };
  struct NewJob {
    JobSpec spec;
    ObjectUser owner;             // the submitter
    SubmittedText submitted;      // kept with the job; its own `job` is ignored
    std::int64_t lease_unit = 0;  // of JobRecord
  };
  // `done` runs on a runtime thread once the command is durable or refused. kUnavailable while
  // stopping and when the input queue is full.
  virtual void submit(NewJob job, bool dry_run, std::function<void(Answer)> done) = 0;
  virtual void cancel(JobId job, std::function<void(Answer)> done) = 0;
  virtual void pause(JobId job, std::function<void(Answer)> done) = 0;
  virtual void resume(JobId job, ObjectUser by, std::function<void(Answer)> done) = 0;
  // `command` is without its request.
  virtual void change(ChangeJob command, std::function<void(Answer)> done) = 0;

  // Removes an ended job. `aside`: its checkpoints that were set aside, as read through a Reader.
  virtual void remove_job(JobId job, std::vector<CheckpointRecord> aside,
                          std::function<void(Answer)> done) = 0;

  // `command` is without its request. When a removal is refused, the fields say what it would
  // break.
  virtual void command_checkpoint(CommandCheckpoint command, std::function<void(Answer)> done) = 0;

  // A good answer carries no job.
  virtual void command_agent(AgentId agent, AgentVerb verb, std::function<void(Answer)> done) = 0;

  // Lines that an agent keeps on its host. `done` runs once, within seconds, on any thread;
  // kUnavailable: the agent is not connected.
  virtual void read_logs(AgentId agent, const LogQuery& query,
                         std::function<void(Result<LogPage>)> done) = 0;

  virtual std::shared_ptr<const LiveView> live() const = 0;  // at most a second old
  virtual Readiness readiness() const = 0;
  virtual std::int64_t inputs_waiting() const = 0;  // for the core
  virtual CheckpointSpace checkpoint_space() const = 0;
  virtual std::shared_ptr<Meters> meters() const = 0;
  virtual Store& store() = 0;

  // Where the files of a stored checkpoint are.
  virtual std::string checkpoint_folder(CheckpointId checkpoint) const = 0;

  // Calls `wake` (on a runtime thread, must not block) whenever events became durable, with the
  // newest seq. The stream itself reads them through a Reader. Returns a handle; dropping it
  // unsubscribes.
  virtual std::shared_ptr<void> on_events(std::function<void(std::int64_t newest_seq)> wake) = 0;
};

}  // namespace shoal::coordinator
