// A job whose newest state is held by absent replicas alone, or maybe in copies of its stages. It
// waits for them: a roll-back throws away what they hold, so it comes last, after about as long as
// the work at stake took. When they are back, those that come a moment later are waited for as
// well: the first one alone would continue without the others.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Nobody present holds the committed state of this stage, nor a copy of it. True while the job
// waits for those out of reach that do or may; its reason says for which, and how long.
bool waits_for_absent(Transaction& tx, JobId id, StageIndex stage);

// Whether it would, without a change.
bool may_wait_for_absent(const Transaction& tx, JobId id, StageIndex stage);

// Says to the absent ones within reach of a stalled job what is next for them, now and then: who
// was only excluded from a reduce has nothing to say before it is asked, and answers.
void ask_absent(Transaction& tx, JobId id);

// It has waited in vain, and one of those that it waited for is within reach, but does not answer:
// its device is needed.
bool waited_in_vain(const Transaction& tx, JobId id);

// Every stage has an in-sync replica again. True while others that were lost with them may be on
// their way.
bool waits_for_others(Transaction& tx, JobId id);

// Ends the wait, because the job continues in some way.
void end_waiting(Transaction& tx, JobId id);

// At its start the coordinator has not listened for so long, and nobody could return: every wait is
// as much longer.
void put_off_rollbacks(Transaction& tx, Duration nobody_listened);

// How long this job waits before it gives up what absent replicas hold.
Duration rollback_wait(const Transaction& tx, const JobRecord& job);

}  // namespace shoal::coordinator
