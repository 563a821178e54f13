// All that an agent knows. Agent::State (state.h) has the functions that change it, Agent::digest()
// covers every field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/core/agent.h"
#include "base/backoff.h"
#include "base/fields.h"
#include "base/flat_map.h"
#include "base/prng.h"
#include "base/transfer_patience.h"
#include "messages/coming_states.h"
#include "messages/outbox.h"

namespace shoal::agent {

struct Trainer {
  TrainerState state = TrainerState::kDown;
  std::uint64_t generation = 0;
  TrainerIdentity identity;  // of the process
  // False: an earlier version started it, and the coordinator has not confirmed yet what it said.
  bool identified = true;
  bool replaced = false;     // it was told to stop, and another process takes its place
  Device device;             // as probed, then as the first trainer of the device measured it
  bool memory_read = false;  // HostMeasured said it; then that of the trainer does not count
  Instant started_at;
  std::optional<Instant> due;  // down: start it; otherwise: kill it
  bool attached = false;       // its stream is open
  bool releasing = false;      // a released replica has not ended yet; `due` says until when
  bool unresponsive = false;   // it said nothing for so long that the coordinator was told
  bool hears_relays = false;   // of the process that is attached, as is
  std::int32_t protocol = kProtocolVersion;
  std::optional<Digest> measures;  // the shape of the block that it measures now
  Instant worked_at;               // a replica, a measurement or a start or stop kept it busy
  bool left = false;  // by an earlier start of the daemon, and not attached to this one yet
  Backoff backoff{seconds(1), seconds(1)};
  // By its port, as it said last; none: it was left, and has not said yet.
  std::optional<RefusalCounts> refused;
  std::string killed_because;      // by us; empty: it ended by itself
  std::string last_exit;           // for the sentence about a replica that waited in vain
  std::int32_t failed_starts = 0;  // of this agent's trainer in a row, none of which was ready
};
constexpr auto fields_of(Of<Trainer>) {
  using T = Trainer;
  return fields<&T::state, &T::generation, &T::identity, &T::identified, &T::replaced, &T::device,
                &T::memory_read, &T::started_at, &T::due, &T::attached, &T::releasing,
                &T::unresponsive, &T::hears_relays, &T::protocol, &T::measures, &T::worked_at,
                &T::left, &T::backoff, &T::refused, &T::killed_because, &T::last_exit,
                &T::failed_starts>();
}

struct Replica {
  ReplicaState state = ReplicaState::kWaiting;
  Assign assign;
  std::int32_t slot = 0;       // its trainer
  HeldReplica held;            // as the next Hello says it
  ComingStates coming;         // that it is told to take
  bool load_repeated = false;  // its trainer may begin it again after it said that it failed
  std::optional<Instant> due;  // waiting, serving: give up; loading: kill its trainer
};
constexpr auto fields_of(Of<Replica>) {
  using T = Replica;
  return fields<&T::state, &T::assign, &T::slot, &T::held, &T::coming, &T::load_repeated,
                &T::due>();
}

// A checkpoint that replicas wait for or load from, or the code of a job that has replicas here.
struct Fetch {
  std::string folder;  // of a checkpoint
  TransferPatience patience{seconds(60), seconds(1), seconds(1)};
  bool complete = false, running = true;
  std::optional<Instant> queued_since;  // it runs when those before it have ended
  std::optional<Instant> due;           // running: give up; interrupted: continue
};
constexpr auto fields_of(Of<Fetch>) {
  using T = Fetch;
  return fields<&T::folder, &T::patience, &T::complete, &T::running, &T::queued_since, &T::due>();
}

struct Upload {
  UploadState state = UploadState::kWriting;
  ReplicaId replica;
  RoundKey key;
  std::string folder;
  std::vector<FileEntry> files;  // as their writer reported them, or as they were found
  Digest anchor;                 // as its writer said; zero: of protocol 4
  std::string sample;
  TransferPatience patience{seconds(60), seconds(1), seconds(1)};
  std::optional<Instant> queued_since;  // as of a fetch
  std::optional<Instant> due;           // retrying: the next attempt; none: at the next Welcome
};
constexpr auto fields_of(Of<Upload>) {
  using T = Upload;
  return fields<&T::state, &T::replica, &T::key, &T::folder, &T::files, &T::anchor, &T::sample,
                &T::patience, &T::queued_since, &T::due>();
}

// Where a trainer was killed: what it held there, and on what.
struct KilledPlace {
  JobId job;
  StageIndex stage = 0;
  std::int32_t device = 0;
  auto operator<=>(const KilledPlace&) const = default;
};
constexpr auto fields_of(Of<KilledPlace>) {
  using T = KilledPlace;
  return fields<&T::job, &T::stage, &T::device>();
}

struct AgentData {
  Options options;
  Prng prng;
  TransitionCounts counts;
  std::int64_t dropped = 0;
  Instant now;
  Effects* out = nullptr;

  DaemonState daemon = DaemonState::kRunning;
  std::optional<Instant> drain_due;

  LinkState link = LinkState::kDown;
  LinkId link_id;
  std::optional<Instant> link_due;       // down: open; opening, greeting: give up
  std::optional<Instant> heartbeat_due;  // active only
  Backoff link_backoff;
  Welcome welcome;  // the last one; incarnation 0 before the first
  std::vector<ReplicaId> hello_replicas;
  std::vector<Device> hello_devices;
  std::int64_t heartbeats = 0;
  HostMeasured measured_host;
  FlatMap<std::string, DeviceSample> told_samples;  // in this session, by UUID
  std::optional<std::vector<std::string>> relays;   // of the cluster; none: not told yet
  RefusalCounts port_refusals;                      // by the ports of all trainers that there were
  Outbox<FromAgent> outbox;

  std::vector<Trainer> trainers;  // by slot; those of further replicas are made when one comes
  FlatMap<ReplicaId, Replica> replicas;
  std::vector<ReplicaId> released;           // newest last
  FlatMap<KilledPlace, std::int32_t> kills;  // for memory, since a round was committed there
  FlatMap<CheckpointPartId, Fetch> fetches;
  FlatMap<std::string, Fetch> codes;  // by TrainerSpec::code
  FlatMap<CheckpointPartId, Upload> uploads;
};
constexpr auto fields_of(Of<AgentData>) {
  using T = AgentData;
  return fields(field<&T::options>(not_state("given at the start")), field<&T::prng>(),
                field<&T::counts>(), field<&T::dropped>(), field<&T::now>(),
                field<&T::out>(not_state("of the running step")), field<&T::daemon>(),
                field<&T::drain_due>(), field<&T::link>(), field<&T::link_id>(),
                field<&T::link_due>(), field<&T::heartbeat_due>(), field<&T::link_backoff>(),
                field<&T::welcome>(), field<&T::hello_replicas>(), field<&T::hello_devices>(),
                field<&T::heartbeats>(), field<&T::measured_host>(), field<&T::told_samples>(),
                field<&T::relays>(), field<&T::port_refusals>(), field<&T::outbox>(),
                field<&T::trainers>(), field<&T::replicas>(), field<&T::released>(),
                field<&T::kills>(), field<&T::fetches>(), field<&T::codes>(), field<&T::uploads>());
}

}  // namespace shoal::agent
