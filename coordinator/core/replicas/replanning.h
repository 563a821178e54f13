// Whether a pipeline would be faster if it were placed anew. A plan is as good as the speeds and
// lines that it was made by, and lines are measured only once replicas train. So the job is planned
// again, as a pause and a resume would place it, when measurements have changed: with the cut that
// it has, or with swarm.recut with another one (recutting.h). Where that beats the present
// placement by a fifth, an event gives both figures; with swarm.recut the job is then placed anew
// by itself: it finishes its round, stores a checkpoint, gives its devices up and is placed in the
// same step, as for a pause (jobs.cc).
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// For a pipeline that trains; at most every two minutes, and never within a second of another plan,
// because planning takes the core's thread for up to 0.2 s (twice that with swarm.recut). Not while
// a replica loads or is absent.
void look_for_better_plan(Transaction& tx, JobId job);

// Called before each look at a job. One that is to be placed anew keeps its devices instead when it
// stalls, or when its checkpoint cannot be stored.
void follow_recut(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
