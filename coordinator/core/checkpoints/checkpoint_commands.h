// The commands on checkpoints: pin, unpin and remove. Each is answered once, with the job of the
// checkpoint or with an error. When a removal would break something, the fields of the error name
// everything that it would break.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Only a person can delete a pinned checkpoint. Pin and unpin are idempotent. Errors: kNotFound;
// kConflict when the checkpoint is not stored, or when it is needed (decisions/retention.h) and the
// removal comes without `force`.
void on_command_checkpoint(Transaction& tx, const CommandCheckpoint& command);

// Removes the files of a checkpoint that was set aside as damaged, whose record the core does not
// keep.
void remove_aside(Transaction& tx, CheckpointRecord aside);

}  // namespace shoal::coordinator
