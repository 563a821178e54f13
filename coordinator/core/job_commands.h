// What people ask of jobs: submit, cancel, pause, resume, change. Each is answered once, with the
// job or with an error that names the field and what would be accepted; what follows is done by
// jobs.cc.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// A dry run is answered with the plan and changes nothing. kValidation, kConflict (a live job has
// the name), kResourceExhausted.
void on_submit(Transaction& tx, const SubmitJob& command);
// Idempotent. kNotFound; kConflict: it has ended otherwise.
void on_cancel(Transaction& tx, const CancelJob& command);
// The round that is open is finished and counts, no further one is opened, the committed state is
// stored, and the job lets all its devices go; at once where nothing was committed since it was
// given devices. One that commits its last inner step meanwhile completes. Idempotent. kNotFound;
// kConflict: it has ended.
void on_pause(Transaction& tx, const PauseJob& command);
// A paused job is queued and continues from its checkpoint; one that is about to pause trains on,
// with sync.overlap_steps after it has let its replicas go. Idempotent. kNotFound; kConflict: it
// has ended.
void on_resume(Transaction& tx, const ResumeJob& command);
// An outer learning rate counts from the next round that is frozen, a priority at once. kNotFound,
// kConflict (it has ended), kValidation.
void on_change(Transaction& tx, const ChangeJob& command);

}  // namespace shoal::coordinator
