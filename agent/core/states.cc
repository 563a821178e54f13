#include "agent/core/states.h"

#include <iterator>

namespace shoal::agent {
namespace {

template <typename State, typename Event>
struct Row {
  State from;
  Event event;
  State to;
};

template <typename State, typename Event, std::size_t kRows>
std::optional<State> find(const Row<State, Event> (&table)[kRows], State state, Event event) {
  for (const auto& row : table) {
    if (row.from == state && row.event == event) return row.to;
  }
  return std::nullopt;
}

constexpr Row<DaemonState, DaemonEvent> kDaemon[] = {
    {DaemonState::kRunning, DaemonEvent::kStop, DaemonState::kDraining},
    {DaemonState::kRunning, DaemonEvent::kFinish, DaemonState::kStopped},
    {DaemonState::kDraining, DaemonEvent::kFinish, DaemonState::kStopped},
};

constexpr Row<LinkState, LinkEvent> kLink[] = {
    {LinkState::kDown, LinkEvent::kOpen, LinkState::kOpening},
    {LinkState::kOpening, LinkEvent::kUp, LinkState::kGreeting},
    {LinkState::kGreeting, LinkEvent::kWelcome, LinkState::kActive},
    {LinkState::kOpening, LinkEvent::kLost, LinkState::kDown},
    {LinkState::kGreeting, LinkEvent::kLost, LinkState::kDown},
    {LinkState::kActive, LinkEvent::kLost, LinkState::kDown},
};

constexpr Row<TrainerState, TrainerEvent> kTrainer[] = {
    {TrainerState::kDown, TrainerEvent::kStart, TrainerState::kStarting},
    {TrainerState::kStarting, TrainerEvent::kAttached, TrainerState::kReady},
    {TrainerState::kStarting, TrainerEvent::kStop, TrainerState::kStopping},
    {TrainerState::kReady, TrainerEvent::kStop, TrainerState::kStopping},
    {TrainerState::kStarting, TrainerEvent::kExited, TrainerState::kDown},
    {TrainerState::kReady, TrainerEvent::kExited, TrainerState::kDown},
    {TrainerState::kStopping, TrainerEvent::kExited, TrainerState::kDown},
};

constexpr Row<ReplicaState, ReplicaEvent> kReplica[] = {
    {ReplicaState::kWaiting, ReplicaEvent::kLoad, ReplicaState::kLoading},
    {ReplicaState::kLoading, ReplicaEvent::kLoaded, ReplicaState::kServing},
    {ReplicaState::kWaiting, ReplicaEvent::kEnd, ReplicaState::kGone},
    {ReplicaState::kLoading, ReplicaEvent::kEnd, ReplicaState::kGone},
    {ReplicaState::kServing, ReplicaEvent::kEnd, ReplicaState::kGone},
};

constexpr Row<UploadState, UploadEvent> kUpload[] = {
    {UploadState::kWriting, UploadEvent::kWritten, UploadState::kHashing},
    {UploadState::kHashing, UploadEvent::kHashed, UploadState::kSending},
    {UploadState::kSending, UploadEvent::kSent, UploadState::kStored},
    {UploadState::kSending, UploadEvent::kFailed, UploadState::kRetrying},
    {UploadState::kRetrying, UploadEvent::kRetry, UploadState::kSending},
    {UploadState::kStored, UploadEvent::kRetry, UploadState::kSending},
    {UploadState::kWriting, UploadEvent::kDrop, UploadState::kGone},
    {UploadState::kHashing, UploadEvent::kDrop, UploadState::kGone},
    {UploadState::kSending, UploadEvent::kDrop, UploadState::kGone},
    {UploadState::kRetrying, UploadEvent::kDrop, UploadState::kGone},
    {UploadState::kStored, UploadEvent::kDrop, UploadState::kGone},
};

}  // namespace

std::optional<DaemonState> transition(DaemonState state, DaemonEvent event) {
  return find(kDaemon, state, event);
}
std::optional<LinkState> transition(LinkState state, LinkEvent event) {
  return find(kLink, state, event);
}
std::optional<TrainerState> transition(TrainerState state, TrainerEvent event) {
  return find(kTrainer, state, event);
}
std::optional<ReplicaState> transition(ReplicaState state, ReplicaEvent event) {
  return find(kReplica, state, event);
}
std::optional<UploadState> transition(UploadState state, UploadEvent event) {
  return find(kUpload, state, event);
}

}  // namespace shoal::agent
