// Views of a job with several stages: the numbered list of live replicas that train the current
// round. Numbers are durable and grow over restarts; every change of membership makes a new one,
// told to all members before the order that needs it, and so does a line that changed by a quarter
// since the round before. A joiner is in no view before it has data.
// Between the last commit and the end of the job it lists the replicas that hold the committed
// state, for the evaluation. A job of one stage has none.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Tells all members a new view if the membership has changed since the last one.
void refresh_view(Transaction& tx, JobId job);

// The newest view for one member that may have missed it; nothing for a replica outside it.
void resend_view(Transaction& tx, const ReplicaRecord& replica);

}  // namespace shoal::coordinator
