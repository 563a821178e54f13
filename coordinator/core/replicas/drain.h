// Takes an agent out of service and puts it back, at an operator's command.
//
// A cordoned agent keeps its replicas and gets no new ones. A cordon is durable: it outlives
// restarts of the agent and of the coordinator. A draining agent is cordoned, and its replicas are
// released: one that loads at once, one that trains when a round of its job commits, so that
// nothing it trained is lost. A replica whose stage would fall below min_replicas stays until
// another one has taken its place. A restart of the agent ends the draining, not the cordon.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Each command is idempotent. Answers kNotFound for an unknown agent, kConflict for one that is
// gone; only on_forget_agent() (forgetting.h) takes those.
void on_command_agent(Transaction& tx, const CommandAgent& command);

// Releases replicas that are loading; called whenever a job is looked at.
void release_drained_loaders(Transaction& tx, JobId job);
// Releases reducers as soon as no attempt depends on them.
void release_drained_reducers(Transaction& tx, JobId job);
// A round of this job is being committed: releases the replicas that may go, before the next round
// assigns data. In an asynchronous job only those that have reported; the others after their own
// round.
void release_drained_at_commit(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
