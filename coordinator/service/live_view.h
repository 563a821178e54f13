// Collects what is true only for this process: who is connected, when it was last heard, the newest
// progress of each replica. The runtime's threads write it, and the REST side reads it;
// thread-safe. Views are immutable and shared. A new one is made when it is asked for and the last
// one is older than half a second, or when an agent has come or gone.
#pragma once

#include <memory>
#include <optional>

#include "coordinator/service/agent_port.h"
#include "coordinator/service/cluster.h"
#include "coordinator/service/device_minute.h"
#include "coordinator/service/token_meter.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class LiveBoard {
 public:
  // An agent is late (yellow) when it was silent for more than two and a half heartbeats.
  // Refusals that agents report are counted in `meters`. `devices`, as an earlier process heard
  // them, are shown with their age until their agents speak.
  LiveBoard(Duration heartbeat_every, const Snapshot& snapshot,
            std::shared_ptr<Meters> meters = std::make_shared<Meters>(),
            std::vector<DeviceState> devices = {});

  // False: the message reports training of a replica that this agent does not hold, and is ignored.
  bool said(Instant now, ConnectionId connection, const FromAgent& message);
  void welcomed(Instant now, ConnectionId connection, AgentId agent);
  void hung_up(ConnectionId connection);
  void show(const ShowSpeed& speed);
  void show(const ShowPlacement& placement);
  void stored(const Record& record);  // drops agents that are gone and replicas that ended

  // What the store has not had yet: states that changed in a way that matters at once, the others
  // and the minute of every device when a minute is over.
  DeviceLog take_devices(Instant now);

  bool has_replica(AgentId agent, ReplicaId replica);
  std::int64_t replicas_of(AgentId agent);
  bool works_for(AgentId agent, JobId job);
  bool begins_from(AgentId agent, CheckpointId checkpoint, JobId job);
  bool continues_from(AgentId agent, CheckpointId checkpoint);

  std::shared_ptr<const LiveView> view(Instant now);
  std::optional<ReplicaPlace> place_of(ReplicaId replica);  // none: it has ended, or never was

 private:
  struct SampledDevice {
    DeviceSample sample;
    Instant at;             // when it was heard
    bool restored = false;  // by an earlier process
    bool is_new = true;     // the store does not have it
    Instant counted_until;  // in the sum
    MinuteSum sum;
  };
  struct Agent {
    ConnectionId connection;  // zero: none
    Instant last_seen;
    Bytes resident;
    std::optional<RelayFigures> relay;
    std::vector<DeviceFailure> failures;
    std::vector<Device> devices;
    std::vector<DeviceRefusal> refusals;
    FlatMap<std::string, SampledDevice> samples;  // by UUID
    std::int64_t heartbeats = 0;                  // the sequence of its last heartbeat
    RefusalCounts refused;                        // as that heartbeat said
    std::string name;
    bool trains = false;
    AllowedPrograms programs;
  };
  struct Load {
    JobId job;
    JoinWatch watch;
  };
  struct Job {  // that has not ended
    RoundKey committed;
    Tokens tokens;  // of its committed rounds
    std::size_t stages = 1;
    TokenMeter meter;
  };

  void note(const AgentRecord& agent) SHOAL_REQUIRES(mutex_);
  void note(const JobRecord& job) SHOAL_REQUIRES(mutex_);
  void note(const ReplicaRecord& replica) SHOAL_REQUIRES(mutex_);
  void note(Agent& agent, const Heartbeat& heartbeat, Instant now) SHOAL_REQUIRES(mutex_);
  void note(Agent& agent, const DeviceSample& sample, Instant now) SHOAL_REQUIRES(mutex_);
  void count(Agent& agent, Instant now) SHOAL_REQUIRES(mutex_);
  void restore(std::vector<DeviceState> devices) SHOAL_REQUIRES(mutex_);
  std::vector<DeviceSample> samples_now(const Agent& agent, Instant now) SHOAL_REQUIRES(mutex_);
  void log_devices(DeviceLog& log, AgentId id, Agent& agent, bool minute_over)
      SHOAL_REQUIRES(mutex_);
  void note(const LoadProgress& progress, Instant now) SHOAL_REQUIRES(mutex_);
  void note(const Progress& progress, Instant now) SHOAL_REQUIRES(mutex_);
  void note_copies(const ReplicaRecord& keeper) SHOAL_REQUIRES(mutex_);
  void note(ReplicaId keeper, const CopiesHeld& held) SHOAL_REQUIRES(mutex_);
  FlatMap<AgentId, std::vector<std::string>> slow_replicas() SHOAL_REQUIRES(mutex_);
  AgentLive agent_now(const Agent& agent, const std::vector<std::string>* slow, Instant now)
      SHOAL_REQUIRES(mutex_);

  const Duration late_after_;
  const std::shared_ptr<Meters> meters_;
  Mutex mutex_;
  std::int64_t boot_epoch_ SHOAL_GUARDED_BY(mutex_) = 0;
  FlatMap<AgentId, Agent> agents_ SHOAL_GUARDED_BY(mutex_);
  FlatMap<ConnectionId, AgentId> by_connection_ SHOAL_GUARDED_BY(mutex_);
  FlatMap<ReplicaId, ReplicaLive> replicas_ SHOAL_GUARDED_BY(mutex_);
  FlatMap<ReplicaId, PipelineLive> pipeline_ SHOAL_GUARDED_BY(mutex_);
  FlatMap<ReplicaId, SpeedLive> speeds_ SHOAL_GUARDED_BY(mutex_);
  FlatMap<JobId, Job> jobs_ SHOAL_GUARDED_BY(mutex_);
  FlatMap<ReplicaId, ReplicaPlace> held_ SHOAL_GUARDED_BY(mutex_);  // that have not ended
  FlatMap<ReplicaId, Load> loads_ SHOAL_GUARDED_BY(mutex_);         // of replicas that load
  FlatMap<ReplicaId, CopyLive> copies_ SHOAL_GUARDED_BY(mutex_);
  FlatMap<JobId, std::shared_ptr<const PlacementReport>> placements_ SHOAL_GUARDED_BY(mutex_);
  Instant minute_ SHOAL_GUARDED_BY(mutex_);              // that runs
  bool tells_devices_ SHOAL_GUARDED_BY(mutex_) = false;  // before the minute is over
  std::shared_ptr<const LiveView> view_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::coordinator
