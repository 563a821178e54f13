// What people ask of checkpoints: pin, unpin, remove. Each is answered once, with the job of the
// checkpoint or with an error; of a removal that would break something the fields of the error name
// all of it.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// A pinned one is deleted by a person only. Pin and unpin are idempotent. Codes: kNotFound;
// kConflict: it is not stored; or, of a removal without `force`, somebody needs it
// (decisions/retention.h).
void on_command_checkpoint(Transaction& tx, const CommandCheckpoint& command);

// The record of one that was set aside as damaged, which the core does not keep: its files go.
void remove_aside(Transaction& tx, CheckpointRecord aside);

}  // namespace shoal::coordinator
