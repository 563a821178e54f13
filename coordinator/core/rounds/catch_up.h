// What a replica must hear again whose agent was away: its assignment while it loads; after that
// the view, and the commit, order or plan that the round has for it now, its share of the
// evaluation and of a checkpoint. Everything may be said twice: the receiver ignores repetitions.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// A replica that missed more than one commit has failed.
void catch_up(Transaction& tx, ReplicaId id);

}  // namespace shoal::coordinator
