// The four state machines of the coordinator: their tables, and the one function that moves each. A
// move that is not in its table is a bug in the rules and stops the process.
//
// Job (jobs.cc)
//   queued     -> gathering            a device was assigned
//              -> paused               the operator asked for it; also from gathering, warming,
//                                      training and stalled when nothing has to be stored first
//   gathering  -> queued               all replicas are gone
//              -> warming              min_replicas were there for the gather window
//              -> finalizing           it is to pause, and no checkpoint has its state; also
//                                      from queued and warming
//   warming    -> gathering            too few are left
//              -> training             all have loaded
//   training   -> stalled              fewer in-sync replicas than min_replicas
//              -> finalizing           all inner steps are committed, or it is to pause and its
//                                      round is
//   stalled    -> training, finalizing enough are there again
//   finalizing -> completed, paused    the checkpoint is stored
//              -> training             it was to pause, and is to continue
//              -> stalled              its last in-sync replica died
//   paused     -> queued               it is to continue; at once where it yielded to another job
//   any live   -> cancelled, failed
//
// Agent (membership.cc, replicas/agents.cc)
//   joining    -> idle
//   idle, syncing, active -> each other    it holds nothing; loads only; holds one that has loaded
//   idle, syncing, active, draining, gone -> joining    a new start of it has joined
//   draining   -> idle                 an operator puts it back
//   any but gone -> draining, gone
//
// Replica (replicas/replicas.cc, rounds/)
//   assigned   -> loading -> serving <-> averaging
//   loading, serving, averaging -> absent    the lease of its agent lapsed
//   absent     -> loading, serving           its agent is back, and it continues with what it holds
//   any live   -> released, failed
//
// Round (rounds/)
//   open       -> frozen -> reducing -> voting -> committed
//   reducing, voting -> frozen         next attempt
//   reducing, voting -> aborted -> open    same round, progress kept
//   open       -> aborted              the job ended
#pragma once

#include <string>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

void transition(Transaction& tx, JobId id, JobPhase to, JobReason reason, std::string detail = {});
void transition(Transaction& tx, AgentId id, AgentState to, AgentGone gone = AgentGone::kNone);
void transition(Transaction& tx, ReplicaId id, ReplicaState to);
void transition(Transaction& tx, const RoundKey& key, RoundState to);

// Changes the reason of a job that stays in its phase; silent when nothing changes.
void set_reason(Transaction& tx, JobId id, JobReason reason, std::string detail = {});

bool allowed(JobPhase from, JobPhase to);
bool allowed(AgentState from, AgentState to);
bool allowed(ReplicaState from, ReplicaState to);
bool allowed(RoundState from, RoundState to);

}  // namespace shoal::coordinator
