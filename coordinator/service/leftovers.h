// What lies in the folder of checkpoints when a coordinator starts, beside what its tables name. A
// crash between a record and the files leaves folders that were deleted; a backup of the tables
// that was put back does not know the folders that came after it. The former go. The latter are
// kept, and those that are whole, every file with the size and the SHA-256 of the manifest, are for
// the core to take over (coordinator/core/checkpoints/found.h); of the others it tells.
#pragma once

#include <set>
#include <vector>

#include "coordinator/service/checkpoint_files.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {

struct Leftovers {
  std::vector<CheckpointRecord> found;  // `failed` and with a detail: not whole
  std::set<CheckpointId> keep;          // everything else may be pruned
};

// Reads every byte of what the tables do not know; nothing of what they do.
Result<Leftovers> look_through(const CheckpointFiles& files, Store& store);

}  // namespace shoal::coordinator
