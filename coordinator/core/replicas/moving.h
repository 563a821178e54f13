// Carries out the moves of replicas between stages that placement.h and swarm/core decide, and says
// why one that would help is not made. A move is the release of the replica and, in the same step,
// the load of the other stage on its device, so that nothing else takes the device until the new
// replica serves or fails there. A device does not return for balance to a stage that it has left
// within 30 minutes.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// At once, when a stage is below min_replicas, no free device is there for it, and a replica or a
// checkpoint has its state.
void move_in_emergency(Transaction& tx, JobId job);

// Every Options::rebalance_every, right after the outer step, when a new source is known; in an
// open round where two looks, 10 s apart, find a stage far behind the others. A replica that shares
// its device and is of no use any more is released after every round. Also shows how the job is
// placed, with the newest move that was considered (decisions/placement_report.h).
void move_for_balance(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
