// The four state machines of the coordinator: their tables, and the one function that moves each. A
// move that is not in its table is a bug in the rules and stops the process.
//
// Job (coordinator/core/jobs.cc):
//   queued    -> gathering            a device was assigned
//   gathering -> queued, warming      all replicas gone; min_replicas are there for the gather
//   window warming   -> gathering, training  too few left; all loaded training  -> stalled, sealing
//   fewer holders than min_replicas; all inner steps committed stalled   -> training, sealing
//   enough again sealing   -> completed, stalled   final checkpoint stored; its last holder died
//   any live  -> cancelled, failed
// Agent (membership.cc): joining -> idle <-> syncing <-> active, any -> draining, gone; gone ->
// joining; draining -> idle, joining Replica (replicas.cc): assigned -> loading -> serving <->
// averaging, any live -> released, failed Round (rounds.cc): open -> sealed -> reducing -> voting
// -> committed; reducing, voting -> sealed (next
//   attempt) or aborted; aborted -> open (same round, progress kept); open -> aborted (job ended)
#pragma once

#include <string>

#include "coordinator/core/turn.h"

namespace shoal::coordinator {

void transition(Turn& turn, JobId id, JobPhase to, JobReason reason, std::string detail = {});
void transition(Turn& turn, AgentId id, AgentState to, AgentGone gone = AgentGone::kNone);
void transition(Turn& turn, ReplicaId id, ReplicaState to);
void transition(Turn& turn, const RoundKey& key, RoundState to);

// Changes the reason of a job that stays in its phase; silent when nothing changes.
void set_reason(Turn& turn, JobId id, JobReason reason, std::string detail = {});

bool allowed(JobPhase from, JobPhase to);
bool allowed(AgentState from, AgentState to);
bool allowed(ReplicaState from, ReplicaState to);
bool allowed(RoundState from, RoundState to);

}  // namespace shoal::coordinator
