// A job whose newest state is held only by absent replicas, or perhaps by copies of its stages. It
// waits for them, because a rollback would discard what they hold; it rolls back after about as
// long as the work at stake took. It does not wait where a checkpoint of the committed round is
// stored: any device continues the open round from that one. When the first of them is back, the
// job waits a moment for the others, because the first one alone would continue without them.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// To be called when no present replica holds the committed state of this stage or a copy of it.
// True while the job waits for unreachable holders; its reason says for which ones, and for how
// long.
bool waits_for_absent(Transaction& tx, JobId id, StageIndex stage);

// Whether it would wait; changes nothing.
bool may_wait_for_absent(const Transaction& tx, JobId id, StageIndex stage);

// From time to time, sends the reachable absent replicas of a stalled job their next order. A
// replica that was only excluded from a reduce says nothing by itself, but answers.
void ask_absent(Transaction& tx, JobId id);

// The job has waited in vain, and one of the replicas that it waited for is reachable but does not
// answer. Its device is needed.
bool waited_in_vain(const Transaction& tx, JobId id);

// To be called when every stage has an in-sync replica again. True while the job waits for other
// replicas that were lost at the same time and may still return.
bool waits_for_others(Transaction& tx, JobId id);

// Ends the wait, because the job continues in some way.
void end_waiting(Transaction& tx, JobId id);

// Called at the start: while the coordinator did not listen, nobody could return, so every wait is
// extended by `nobody_listened`.
void put_off_rollbacks(Transaction& tx, Duration nobody_listened);

// How long this job waits before it gives up what absent replicas hold.
Duration rollback_wait(const Transaction& tx, const JobRecord& job);

}  // namespace shoal::coordinator
