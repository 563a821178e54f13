// How the state of an agent follows from its replicas: idle, syncing or active; charged with
// violations, quarantined, believed to have less memory, or put back to work. Joining and leaving
// are in membership.h, which sees this; the rules of quarantine are in health_record.h.
#pragma once

#include <string>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// idle, syncing or active, from the replicas the agent holds. Draining, joining and gone stay.
void refresh_agent(Transaction& tx, AgentId agent);

// One of its contributions was rejected; it may be one too many (health_record.h).
void record_violation(Transaction& tx, AgentId agent, RejectReason reason);
// It may work again. `why` ends the sentence of the event.
void end_quarantine(Transaction& tx, AgentId agent, const std::string& why);
// A replica ran out of memory, together with those on its device (health_record.h).
void on_out_of_memory(Transaction& tx, const ReplicaRecord& replica);
// Nothing is held against it any more; nothing happens when nothing was.
void forgive(Transaction& tx, AgentId agent);
// That it could not load some jobs, that some agents could not load it: they are asked again.
void forget_refusals(Transaction& tx, AgentId agent);
void forget_refusals(Transaction& tx, JobId job);
// The agent could not load the job, and is not to be asked again yet.
bool refuses(const Transaction& tx, JobId job, AgentId agent);

// This replica will be released as soon as the rules permit, because its agent is drained or
// quarantined, or its device unhealthy: another one may take its place.
bool is_leaving(const State& state, const ReplicaRecord& replica);

// Whether the stream of its agent is open: of anybody else nobody can say what it does.
bool is_within_reach(const State& state, ReplicaId replica);

}  // namespace shoal::coordinator
