// Forgets an agent that is gone for good (`shoal agent rm`): deletes its record, its lines and its
// violations, and releases its absent replicas. Rounds, events and checkpoints of its jobs keep its
// id, which no other agent gets.
//
// Refused while the agent is there, and while it may hold what nobody within reach holds: the state
// of a stage, a copy of one, or rounds that a restored database does not know. Forgetting says
// nothing about its certificate: a host that is not revoked may come back, as a new agent.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Answers the request. Codes: kNotFound, kConflict.
void on_forget_agent(Transaction& tx, const CommandAgent& command);

}  // namespace shoal::coordinator
