// Checkpoints whose files are on disk while the tables do not know that they are stored: a backup
// of the database was put back, and they were stored after it was taken. They are newer than
// anything the tables know, so they become records like any other, with an event; those of jobs
// that the tables do not know, or cannot tell the stages of, stay files that nothing deletes.
#pragma once

#include <vector>

#include "coordinator/core/state/turn.h"

namespace shoal::coordinator {

// True where there were any: the tables are older than the folder.
bool take_over_found(Turn& turn, const std::vector<CheckpointRecord>& found);

}  // namespace shoal::coordinator
