// Forgetting an agent that is gone for good (`shoal agent rm`): its record, its lines and what is
// held against it go, and its replicas, which were absent, are released. What its jobs have of it,
// the rounds, events and checkpoints, stays, under an id that nobody else gets.
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
