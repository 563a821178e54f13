// Checkpoints whose files are on disk while the tables do not know that they are stored: a backup
// of the database was put back, and they were stored after it was taken. They become records like
// any other, with an event, as soon as their job is known: at start, or when a replica that lives
// tells of it. Files that fit no job stay where they are; nothing deletes them. So do those that
// are not whole (`failed`, with the cause), of which an event tells.
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
