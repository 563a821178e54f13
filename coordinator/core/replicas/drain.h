// Taking an agent out of work and putting it back, as an operator asks for it.
//
// Cordoned: it keeps the replicas it has and gets no new ones. Durable; it outlives restarts of the
// agent and of the coordinator. Draining: cordoned, and its replicas are let go, those that load at
// once, those that train at the moment a round of their job commits, so that nothing they trained
// is lost. A replica whose stage would fall below min_replicas stays until another one has taken
// its place. A new start of the agent ends the draining, not the cordon.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Each is idempotent; kNotFound, kConflict for an agent that is gone. To forget one is in
// forgetting.h, and for those alone.
void on_command_agent(Transaction& tx, const CommandAgent& command);

// Lets go what loads for nothing; called at every look at a job.
void release_drained_loaders(Transaction& tx, JobId job);
// Reducers go as soon as no attempt counts on them.
void release_drained_reducers(Transaction& tx, JobId job);
// A round of this job is being committed: releases what may go, before the next round assigns
// its data. In an asynchronous job only those that had reported; the others after their own round.
void release_drained_at_commit(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
