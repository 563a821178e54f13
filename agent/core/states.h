// The machines inside an agent daemon. Each is an enum, the table below and one transition(); a
// pair that the table does not hold cannot happen in a correct core, and is a CHECK where it does.
// The agent's own state as the coordinator sees it (joining, idle, …) is the coordinator's, not
// this.
//
//   daemon    running  --stop-->  draining  --finish-->  stopped
//             running  --finish-->  stopped                       (refused by the coordinator)
//
//   link      down  --open-->  opening  --up-->  greeting  --welcome-->  active
//             opening, greeting, active  --lost-->  down          (again after a back-off)
//
//   trainer   down  --start-->  starting  --attached-->  ready
//             starting, ready  --stop-->  stopping                (told to stop, or killed)
//             starting, ready, stopping  --exited-->  down        (again after a back-off)
//
//   replica   waiting  --load-->  loading  --loaded-->  serving
//             waiting, loading, serving  --end-->  gone           (released, failed, trainer died)
//
//   upload    writing  --written-->  hashing  --hashed-->  sending  --sent-->  stored
//             sending  --failed-->  retrying  --retry-->  sending
//             stored  --retry-->  sending                         (the coordinator asks again)
//             any but gone  --drop-->  gone                       (forgotten or given up)
#pragma once

#include <optional>

namespace shoal::agent {

enum class DaemonState { kRunning, kDraining, kStopped };
enum class DaemonEvent { kStop, kFinish };

enum class LinkState { kDown, kOpening, kGreeting, kActive };
enum class LinkEvent { kOpen, kUp, kWelcome, kLost };

enum class TrainerState { kDown, kStarting, kReady, kStopping };
enum class TrainerEvent { kStart, kAttached, kStop, kExited };

enum class ReplicaState { kWaiting, kLoading, kServing, kGone };
enum class ReplicaEvent { kLoad, kLoaded, kEnd };

// A checkpoint on its way from the trainer through this host to the coordinator.
enum class UploadState { kWriting, kHashing, kSending, kRetrying, kStored, kGone };
enum class UploadEvent { kWritten, kHashed, kSent, kFailed, kRetry, kDrop };

// The state after the event; nothing when the table has no such row.
std::optional<DaemonState> transition(DaemonState state, DaemonEvent event);
std::optional<LinkState> transition(LinkState state, LinkEvent event);
std::optional<TrainerState> transition(TrainerState state, TrainerEvent event);
std::optional<ReplicaState> transition(ReplicaState state, ReplicaEvent event);
std::optional<UploadState> transition(UploadState state, UploadEvent event);

const char* to_string(DaemonState state);
const char* to_string(LinkState state);
const char* to_string(TrainerState state);
const char* to_string(ReplicaState state);
const char* to_string(UploadState state);

const char* to_string(DaemonEvent event);
const char* to_string(LinkEvent event);
const char* to_string(TrainerEvent event);
const char* to_string(ReplicaEvent event);
const char* to_string(UploadEvent event);

// The words of a machine in the counters: "link opening lost".
constexpr const char* machine_name(DaemonState) { return "daemon"; }
constexpr const char* machine_name(LinkState) { return "link"; }
constexpr const char* machine_name(TrainerState) { return "trainer"; }
constexpr const char* machine_name(ReplicaState) { return "replica"; }
constexpr const char* machine_name(UploadState) { return "upload"; }

}  // namespace shoal::agent
