// What both kinds of event stream (live.ts, stream_worker.ts) need to know.

const kDeadlineMs = 8000;

// A stream that is refused does not say why, and one that lacks a login is not to be tried again.
export async function loginStands(): Promise<boolean> {
  const answer = await fetch('/api/v1/session', { signal: AbortSignal.timeout(kDeadlineMs) }).catch(() => null);
  return answer?.status !== 401;
}

// Names of the stream's events: coordinator/core/records/event_kinds.h, and `reset`, which says that some are lost.
export const kStreamEvents = ['coordinator_started', 'agent_joined', 'agent_returned', 'agent_disconnected', 'agent_gone', 'agent_revoked', 'agent_forgotten',
  'agent_refused', 'claim_refused', 'record_corrupt', 'agent_cordoned', 'agent_uncordoned', 'agent_draining', 'agent_drained', 'agent_quarantined',
  'agent_quarantine_ended', 'block_not_measured', 'device_failing', 'device_unhealthy', 'device_healthy', 'devices_lost',
  'device_left_out', 'device_too_small', 'program_not_run',
  'job_submitted', 'job_changed', 'job_preempted', 'job_phase', 'job_rolled_back', 'job_restored', 'job_removed', 'stage_restored_from_copy',
  'replica_assigned', 'replica_moved', 'move_refused', 'plan_changed', 'pipeline_recut', 'replica_serving', 'replica_absent', 'replica_returned', 'replica_failed', 'replica_slow', 'replica_as_promised',
  'join_slow', 'join_refused', 'source_refused',
  'round_frozen', 'round_attempt', 'round_committed', 'round_aborted', 'round_stragglers',
  'contribution_rejected', 'member_distrusted', 'momentum_lost', 'evaluation', 'checkpoint_stored', 'checkpoint_failed', 'checkpoint_deleted',
  'checkpoint_pinned', 'checkpoint_unpinned', 'checkpoints_over_budget', 'reset'];
