// Joiners whose line is too slow for the rounds of their job (decisions/join_share.h). One whose
// load takes much longer because of the rounds is named; one that would never hold the state, or
// has come no further for long, is released and its agent left alone for a while, longer each time.
// The other members do not notice: nobody waits for a joiner that is far.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Called whenever a job is looked at; schedules the next look while a replica joins.
void watch_joiners(Transaction& tx, JobId job);

// Not to be asked now. While no rounds run, no line is too slow.
bool is_too_slow_for(const Transaction& tx, JobId job, AgentId agent);

}  // namespace shoal::coordinator
