#include "swarm/core/messages.h"

namespace shoal {

const char* to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kReducer:
      return "reducer";
    case DeviceKind::kCuda:
      return "cuda";
  }
  return "unknown";
}

const char* to_string(ReplicaFailure failure) {
  switch (failure) {
    case ReplicaFailure::kTrainerExited:
      return "trainer_exited";
    case ReplicaFailure::kOutOfMemory:
      return "out_of_memory";
    case ReplicaFailure::kDeviceLost:
      return "device_lost";
    case ReplicaFailure::kNonFiniteLoss:
      return "non_finite_loss";
    case ReplicaFailure::kDataMissing:
      return "data_missing";
    case ReplicaFailure::kDataInvalid:
      return "data_invalid";
    case ReplicaFailure::kModelDoesNotFit:
      return "model_does_not_fit";
    case ReplicaFailure::kDonorLost:
      return "donor_lost";
    case ReplicaFailure::kDigestMismatch:
      return "digest_mismatch";
    case ReplicaFailure::kStale:
      return "stale";
    case ReplicaFailure::kAgentLost:
      return "agent_lost";
    case ReplicaFailure::kAgentRestarted:
      return "agent_restarted";
    case ReplicaFailure::kPeerUnreachable:
      return "peer_unreachable";
    case ReplicaFailure::kFrozen:
      return "frozen";
    case ReplicaFailure::kInternal:
      return "internal";
  }
  return "unknown";
}

const char* to_string(SourceKind kind) {
  switch (kind) {
    case SourceKind::kSeed:
      return "seed";
    case SourceKind::kPeer:
      return "peer";
    case SourceKind::kCheckpoint:
      return "checkpoint";
  }
  return "unknown";
}

const char* to_string(ReleaseReason reason) {
  switch (reason) {
    case ReleaseReason::kCompleted:
      return "completed";
    case ReleaseReason::kCancelled:
      return "cancelled";
    case ReleaseReason::kJobFailed:
      return "job_failed";
    case ReleaseReason::kReplaced:
      return "replaced";
    case ReleaseReason::kDraining:
      return "draining";
    case ReleaseReason::kPaused:
      return "paused";
  }
  return "unknown";
}

}  // namespace shoal
