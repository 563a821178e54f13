// Which stored checkpoints stay: what a job keeps of its own (checkpoint.keep), and what all jobs
// keep together (decisions/retention.h). Nothing here fails a job: when the needed checkpoints
// exceed the budget, an event and a metric say so.
#pragma once

#include <string>

#include "coordinator/core/decisions/retention.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// What the rules look at of a stored one.
StoredCheckpoint facts_of(const State& state, const CheckpointRecord& checkpoint);

// With its files, and an event that says why. Its record stays in the store, as deleted: what a
// crash leaves of the files is known by it.
void delete_checkpoint(Transaction& tx, CheckpointId id, const std::string& why);

// Those of a job beyond its checkpoint.keep. Pinned and final ones do not count. The newest one
// that was loaded or compared stays, and so do those that other jobs begin from.
void delete_superseded(Transaction& tx, JobId job);

// Something has changed that the rules of retention look at.
void look_through_soon(Transaction& tx);
// Applies them, if it is time.
void keep_retention(Transaction& tx);

}  // namespace shoal::coordinator
