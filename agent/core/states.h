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

#include "base/enumerators.h"

namespace shoal::agent {

using shoal::to_string;

enum class DaemonState { kRunning, kDraining, kStopped };
constexpr auto enumerators_of(Of<DaemonState>) {
  using enum DaemonState;
  return enumerators<DaemonState>(
      {{kRunning, "running"}, {kDraining, "draining"}, {kStopped, "stopped"}});
}

enum class DaemonEvent { kStop, kFinish };
constexpr auto enumerators_of(Of<DaemonEvent>) {
  using enum DaemonEvent;
  return enumerators<DaemonEvent>({{kStop, "stop"}, {kFinish, "finish"}});
}

enum class LinkState { kDown, kOpening, kGreeting, kActive };
constexpr auto enumerators_of(Of<LinkState>) {
  using enum LinkState;
  return enumerators<LinkState>(
      {{kDown, "down"}, {kOpening, "opening"}, {kGreeting, "greeting"}, {kActive, "active"}});
}

enum class LinkEvent { kOpen, kUp, kWelcome, kLost };
constexpr auto enumerators_of(Of<LinkEvent>) {
  using enum LinkEvent;
  return enumerators<LinkEvent>(
      {{kOpen, "open"}, {kUp, "up"}, {kWelcome, "welcome"}, {kLost, "lost"}});
}

enum class TrainerState { kDown, kStarting, kReady, kStopping };
constexpr auto enumerators_of(Of<TrainerState>) {
  using enum TrainerState;
  return enumerators<TrainerState>(
      {{kDown, "down"}, {kStarting, "starting"}, {kReady, "ready"}, {kStopping, "stopping"}});
}

enum class TrainerEvent { kStart, kAttached, kStop, kExited };
constexpr auto enumerators_of(Of<TrainerEvent>) {
  using enum TrainerEvent;
  return enumerators<TrainerEvent>(
      {{kStart, "start"}, {kAttached, "attached"}, {kStop, "stop"}, {kExited, "exited"}});
}

enum class ReplicaState { kWaiting, kLoading, kServing, kGone };
constexpr auto enumerators_of(Of<ReplicaState>) {
  using enum ReplicaState;
  return enumerators<ReplicaState>(
      {{kWaiting, "waiting"}, {kLoading, "loading"}, {kServing, "serving"}, {kGone, "gone"}});
}

enum class ReplicaEvent { kLoad, kLoaded, kEnd };
constexpr auto enumerators_of(Of<ReplicaEvent>) {
  using enum ReplicaEvent;
  return enumerators<ReplicaEvent>({{kLoad, "load"}, {kLoaded, "loaded"}, {kEnd, "end"}});
}

// A checkpoint on its way from the trainer through this host to the coordinator.
enum class UploadState { kWriting, kHashing, kSending, kRetrying, kStored, kGone };
constexpr auto enumerators_of(Of<UploadState>) {
  using enum UploadState;
  return enumerators<UploadState>({{kWriting, "writing"},
                                   {kHashing, "hashing"},
                                   {kSending, "sending"},
                                   {kRetrying, "retrying"},
                                   {kStored, "stored"},
                                   {kGone, "gone"}});
}

enum class UploadEvent { kWritten, kHashed, kSent, kFailed, kRetry, kDrop };
constexpr auto enumerators_of(Of<UploadEvent>) {
  using enum UploadEvent;
  return enumerators<UploadEvent>({{kWritten, "written"},
                                   {kHashed, "hashed"},
                                   {kSent, "sent"},
                                   {kFailed, "failed"},
                                   {kRetry, "retry"},
                                   {kDrop, "drop"}});
}

// The state after the event; nothing when the table has no such row.
std::optional<DaemonState> transition(DaemonState state, DaemonEvent event);
std::optional<LinkState> transition(LinkState state, LinkEvent event);
std::optional<TrainerState> transition(TrainerState state, TrainerEvent event);
std::optional<ReplicaState> transition(ReplicaState state, ReplicaEvent event);
std::optional<UploadState> transition(UploadState state, UploadEvent event);

// The words of a machine in the counters: "link opening lost".
constexpr const char* machine_name(DaemonState) { return "daemon"; }
constexpr const char* machine_name(LinkState) { return "link"; }
constexpr const char* machine_name(TrainerState) { return "trainer"; }
constexpr const char* machine_name(ReplicaState) { return "replica"; }
constexpr const char* machine_name(UploadState) { return "upload"; }

}  // namespace shoal::agent
