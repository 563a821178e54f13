// The closed list of event kinds. They are names in the API (SSE event types, filters), so they
// never change their meaning.
#pragma once

namespace shoal::coordinator::event_kind {

inline constexpr const char* kCoordinatorStarted = "coordinator_started";
inline constexpr const char* kAgentJoined = "agent_joined";
inline constexpr const char* kAgentReturned = "agent_returned";
inline constexpr const char* kAgentDisconnected = "agent_disconnected";
inline constexpr const char* kAgentGone = "agent_gone";
inline constexpr const char* kAgentRefused = "agent_refused";
inline constexpr const char* kAgentCordoned = "agent_cordoned";
inline constexpr const char* kAgentUncordoned = "agent_uncordoned";
inline constexpr const char* kAgentDraining = "agent_draining";
inline constexpr const char* kAgentDrained = "agent_drained";
inline constexpr const char* kAgentQuarantined = "agent_quarantined";
inline constexpr const char* kAgentQuarantineEnded = "agent_quarantine_ended";
inline constexpr const char* kAgentRevoked = "agent_revoked";
inline constexpr const char* kAgentForgotten = "agent_forgotten";
inline constexpr const char* kBlockNotMeasured = "block_not_measured";
inline constexpr const char* kDeviceFailing = "device_failing";
inline constexpr const char* kDeviceUnhealthy = "device_unhealthy";
inline constexpr const char* kDeviceHealthy = "device_healthy";
inline constexpr const char* kDevicesLost = "devices_lost";
inline constexpr const char* kDeviceLeftOut = "device_left_out";
inline constexpr const char* kDeviceTooSmall = "device_too_small";
inline constexpr const char* kProgramNotRun = "program_not_run";
inline constexpr const char* kJobSubmitted = "job_submitted";
inline constexpr const char* kJobChanged = "job_changed";
inline constexpr const char* kJobPreempted = "job_preempted";
inline constexpr const char* kJobRemoved = "job_removed";
inline constexpr const char* kJobPhase = "job_phase";
inline constexpr const char* kJobRolledBack = "job_rolled_back";
inline constexpr const char* kJobRestored = "job_restored";
inline constexpr const char* kStageRestoredFromCopy = "stage_restored_from_copy";
inline constexpr const char* kClaimRefused = "claim_refused";
inline constexpr const char* kRecordCorrupt = "record_corrupt";
inline constexpr const char* kReplicaAssigned = "replica_assigned";
inline constexpr const char* kReplicaMoved = "replica_moved";
inline constexpr const char* kMoveRefused = "move_refused";
inline constexpr const char* kPlanChanged = "plan_changed";
inline constexpr const char* kPipelineRecut = "pipeline_recut";
inline constexpr const char* kReplicaServing = "replica_serving";
inline constexpr const char* kReplicaAbsent = "replica_absent";
inline constexpr const char* kReplicaReturned = "replica_returned";
inline constexpr const char* kReplicaFailed = "replica_failed";
inline constexpr const char* kReplicaSlow = "replica_slow";
inline constexpr const char* kReplicaAsPromised = "replica_as_promised";
inline constexpr const char* kJoinSlow = "join_slow";
inline constexpr const char* kJoinRefused = "join_refused";
inline constexpr const char* kSourceRefused = "source_refused";
inline constexpr const char* kRoundFrozen = "round_frozen";
inline constexpr const char* kRoundAttempt = "round_attempt";
inline constexpr const char* kRoundCommitted = "round_committed";
inline constexpr const char* kRoundAborted = "round_aborted";
inline constexpr const char* kRoundStragglers = "round_stragglers";
inline constexpr const char* kContributionRejected = "contribution_rejected";
inline constexpr const char* kMemberDistrusted = "member_distrusted";
inline constexpr const char* kMomentumLost = "momentum_lost";
inline constexpr const char* kEvaluation = "evaluation";
inline constexpr const char* kCheckpointStored = "checkpoint_stored";
inline constexpr const char* kCheckpointFailed = "checkpoint_failed";
inline constexpr const char* kCheckpointDeleted = "checkpoint_deleted";
inline constexpr const char* kCheckpointPinned = "checkpoint_pinned";
inline constexpr const char* kCheckpointUnpinned = "checkpoint_unpinned";
inline constexpr const char* kCheckpointsOverBudget = "checkpoints_over_budget";

}  // namespace shoal::coordinator::event_kind
