// Removes a job that has ended (`shoal job rm`): its checkpoints with their files at once, its
// rounds, replicas and events from the store little by little. The record of the job itself stays,
// marked: a late replica or a folder of files must not bring it back as a job that the tables do
// not know.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Answers the request. kNotFound; kConflict: it has not ended, or a checkpoint of it is pinned,
// loaded, or the base of a job that has not ended; the fields name them.
void on_remove_job(Transaction& tx, const RemoveJob& command);

}  // namespace shoal::coordinator
