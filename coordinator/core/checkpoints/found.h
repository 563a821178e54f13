// Checkpoints whose files are on disk, but which the tables do not know as stored, because a backup
// of the database was restored that is older than they are. They become records like any other,
// with an event, as soon as their job is known: at the start, or when a living replica reports it.
// Files that fit no job stay where they are, and so do incomplete ones (`failed`, with the cause
// and an event).
#pragma once

#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// At start. True: the tables gave out none of the id of one of them, so they are older than the
// folder.
bool take_over_found(Transaction& tx, std::vector<CheckpointRecord> found);

// Takes over the checkpoints of a job that the tables did not know when they were found.
void take_over_found(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
