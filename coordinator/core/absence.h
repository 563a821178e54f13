// A job whose newest state is held by absent replicas alone. It waits for them: a roll-back throws
// away what they hold, so it comes last, after about as long as the work at stake took. When they
// are back, those that come a moment later are waited for as well: the first one alone would go on
// without the others.
#pragma once

#include "coordinator/core/state/turn.h"

namespace shoal::coordinator {

// Nobody present holds the committed state of this stage. True while the job waits for absent ones
// that do; its reason says for whom, and how long.
bool waits_for_absent(Turn& turn, JobId id, StageIndex stage);

// Whether it would, without a change.
bool may_wait_for_absent(const Turn& turn, JobId id, StageIndex stage);

// Says to the absent ones within reach of a stalled job what is next for them, now and then: who
// was only left out of a reduce has nothing to say before it is asked, and answers.
void ask_absent(Turn& turn, JobId id);

// It has waited in vain, and one of those that it waited for is within reach, but does not answer:
// its device is needed.
bool waited_in_vain(const Turn& turn, JobId id);

// Every stage has a holder again. True while others that were lost with them may be on their way.
bool waits_for_others(Turn& turn, JobId id);

// The job goes on, by whatever way: what was waited for is over.
void end_waiting(Turn& turn, JobId id);

// At its start the coordinator has not listened for so long, and nobody could return: every wait is
// as much longer.
void put_off_rollbacks(Turn& turn, Duration nobody_listened);

// How long this job waits before it gives up what absent replicas hold.
Duration rollback_wait(const Turn& turn, const JobRecord& job);

}  // namespace shoal::coordinator
