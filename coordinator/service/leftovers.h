// What lies on a shelf of checkpoints when a coordinator starts, beside what its tables name. A
// crash between a record and the files leaves folders that were deleted; a backup of the tables
// that was put back does not know the folders that came after it. The former go. The latter are
// kept, and those that are whole, every file with the size and the SHA-256 of the manifest, are for
// the core to take over (coordinator/core/checkpoints/found.h); of the others it tells.
#pragma once

#include <set>
#include <vector>

#include "coordinator/service/shelves/checkpoint_shelf.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {

struct Leftovers {
  std::vector<CheckpointRecord> found;  // `failed` and with a detail: not whole
  std::set<CheckpointId> keep;          // everything else may be pruned
};

// Verifies what the tables do not know; nothing of what they do.
Result<Leftovers> look_through(const CheckpointShelf& shelf, Store& store);

}  // namespace shoal::coordinator
