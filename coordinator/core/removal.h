// Removing a job that has ended (`shoal job rm`): its checkpoints go with their files, and the
// store takes away, little by little, what is written of its rounds, replicas and events. The
// record of the job itself stays, marked: somebody may come late with a replica of it, or a folder
// of files may be found, and must not bring it back as a job that the tables forgot.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Answers the request. kNotFound; kConflict: it has not ended, or a checkpoint of it is pinned,
// loaded, or the base of a job that has not ended; the fields name them.
void on_remove_job(Transaction& tx, const RemoveJob& command);

}  // namespace shoal::coordinator
