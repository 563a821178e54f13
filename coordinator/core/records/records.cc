#include "coordinator/core/records/records.h"

namespace shoal::coordinator {

const char* to_string(JobPhase value) {
  switch (value) {
    case JobPhase::kQueued:
      return "queued";
    case JobPhase::kGathering:
      return "gathering";
    case JobPhase::kWarming:
      return "warming";
    case JobPhase::kTraining:
      return "training";
    case JobPhase::kStalled:
      return "stalled";
    case JobPhase::kSealing:
      return "sealing";
    case JobPhase::kPaused:
      return "paused";
    case JobPhase::kCompleted:
      return "completed";
    case JobPhase::kCancelled:
      return "cancelled";
    case JobPhase::kFailed:
      return "failed";
  }
  return "unknown";
}

const char* to_string(JobDesired value) {
  switch (value) {
    case JobDesired::kRun:
      return "run";
    case JobDesired::kPause:
      return "pause";
    case JobDesired::kCancel:
      return "cancel";
  }
  return "unknown";
}

const char* to_string(JobReason value) {
  switch (value) {
    case JobReason::kNone:
      return "none";
    case JobReason::kNoAgents:
      return "no_agents";
    case JobReason::kNoDeviceFits:
      return "no_device_fits";
    case JobReason::kWaitingForReplicas:
      return "waiting_for_replicas";
    case JobReason::kLoading:
      return "loading";
    case JobReason::kRunning:
      return "running";
    case JobReason::kReconnecting:
      return "reconnecting";
    case JobReason::kBelowMinReplicas:
      return "below_min_replicas";
    case JobReason::kLastReplicaLost:
      return "last_replica_lost";
    case JobReason::kWaitingForAbsent:
      return "waiting_for_absent";
    case JobReason::kRestoring:
      return "restoring";
    case JobReason::kFinalCheckpoint:
      return "final_checkpoint";
    case JobReason::kPausing:
      return "pausing";
    case JobReason::kPausedByUser:
      return "paused_by_user";
    case JobReason::kCheckpointFailing:
      return "checkpoint_failing";
    case JobReason::kFinished:
      return "finished";
    case JobReason::kCancelledByUser:
      return "cancelled_by_user";
    case JobReason::kDataMissing:
      return "data_missing";
    case JobReason::kDataInvalid:
      return "data_invalid";
    case JobReason::kModelDoesNotFit:
      return "model_does_not_fit";
    case JobReason::kTooManyFailures:
      return "too_many_failures";
  }
  return "unknown";
}

const char* to_string(AgentState value) {
  switch (value) {
    case AgentState::kJoining:
      return "joining";
    case AgentState::kIdle:
      return "idle";
    case AgentState::kSyncing:
      return "syncing";
    case AgentState::kActive:
      return "active";
    case AgentState::kDraining:
      return "draining";
    case AgentState::kGone:
      return "gone";
  }
  return "unknown";
}

const char* to_string(AgentGone value) {
  switch (value) {
    case AgentGone::kNone:
      return "none";
    case AgentGone::kLeft:
      return "left";
    case AgentGone::kLost:
      return "lost";
  }
  return "unknown";
}

const char* to_string(ReplicaState value) {
  switch (value) {
    case ReplicaState::kAssigned:
      return "assigned";
    case ReplicaState::kLoading:
      return "loading";
    case ReplicaState::kServing:
      return "serving";
    case ReplicaState::kAveraging:
      return "averaging";
    case ReplicaState::kAbsent:
      return "absent";
    case ReplicaState::kReleased:
      return "released";
    case ReplicaState::kFailed:
      return "failed";
  }
  return "unknown";
}

const char* to_string(RoundState value) {
  switch (value) {
    case RoundState::kOpen:
      return "open";
    case RoundState::kSealed:
      return "sealed";
    case RoundState::kReducing:
      return "reducing";
    case RoundState::kVoting:
      return "voting";
    case RoundState::kCommitted:
      return "committed";
    case RoundState::kAborted:
      return "aborted";
  }
  return "unknown";
}

const char* to_string(ContributionState value) {
  switch (value) {
    case ContributionState::kTraining:
      return "training";
    case ContributionState::kReported:
      return "reported";
    case ContributionState::kMember:
      return "member";
    case ContributionState::kVoted:
      return "voted";
    case ContributionState::kCommitted:
      return "committed";
    case ContributionState::kKept:
      return "kept";
    case ContributionState::kRejected:
      return "rejected";
    case ContributionState::kLate:
      return "late";
    case ContributionState::kFollowed:
      return "followed";
    case ContributionState::kServed:
      return "served";
    case ContributionState::kLost:
      return "lost";
    case ContributionState::kMoved:
      return "moved";
  }
  return "unknown";
}

const char* to_string(RejectReason value) {
  switch (value) {
    case RejectReason::kNone:
      return "none";
    case RejectReason::kNonFinite:
      return "non_finite";
    case RejectReason::kNoTokens:
      return "no_tokens";
    case RejectReason::kNotReported:
      return "not_reported";
    case RejectReason::kJoiner:
      return "joiner";
    case RejectReason::kOutlier:
      return "outlier";
    case RejectReason::kLeftOut:
      return "left_out";
  }
  return "unknown";
}

const char* to_string(CheckpointState value) {
  switch (value) {
    case CheckpointState::kWriting:
      return "writing";
    case CheckpointState::kUploading:
      return "uploading";
    case CheckpointState::kStored:
      return "stored";
    case CheckpointState::kFailed:
      return "failed";
    case CheckpointState::kDeleted:
      return "deleted";
  }
  return "unknown";
}

const char* to_string(Severity value) {
  switch (value) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "unknown";
}

const char* to_string(Dialled value) {
  switch (value) {
    case Dialled::kNever:
      return "never";
    case Dialled::kYes:
      return "yes";
    case Dialled::kInVain:
      return "in_vain";
  }
  return "unknown";
}

std::vector<FileEntry> all_files(const CheckpointRecord& checkpoint) {
  std::vector<FileEntry> files;
  for (const CheckpointPart& part : checkpoint.parts) {
    files.insert(files.end(), part.files.begin(), part.files.end());
  }
  return files;
}

bool is_terminal(JobPhase phase) {
  return phase == JobPhase::kCompleted || phase == JobPhase::kCancelled ||
         phase == JobPhase::kFailed;
}

bool is_terminal(ReplicaState state) {
  return state == ReplicaState::kReleased || state == ReplicaState::kFailed;
}

}  // namespace shoal::coordinator
