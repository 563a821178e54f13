// How fast each replica computes beside what was promised: by its device, which was measured once
// when its trainer started, and by its own best. Between the two is the efficiency that a job
// reaches on its devices; that of the other replicas of the stage counts, as in paces.h.
//
// Only the pace of computing is compared: forward and backward of a microbatch in a pipeline, the
// tokens per second of training in a job of one stage. A replica that waits for others is not slow.
// One that shares its device with others is slow when they do not explain it.
//
// A replica that turns slow (decisions/speed_watch.h) is the event `replica_slow`, and
// `replica_as_promised` once it is back. Its device is remembered for plans (replicas/placing.h).
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// `message` is from the agent of this live replica.
void note_speed(Transaction& tx, ReplicaId replica, const FromAgent& message);

}  // namespace shoal::coordinator
