// What people ask of jobs: submit, cancel, change. Each is answered once, with the job or with an
// error that names the field and what would be accepted; what follows is done by jobs.cc.
#pragma once

#include "coordinator/core/state/turn.h"

namespace shoal::coordinator {

// A dry run is answered with the plan and changes nothing. kValidation, kConflict (a live job has
// the name), kResourceExhausted.
void on_submit(Turn& turn, const SubmitJob& command);
// Idempotent. kNotFound; kConflict: it has ended otherwise.
void on_cancel(Turn& turn, const CancelJob& command);
// From the next round that is sealed. kNotFound, kConflict (it has ended), kValidation.
void on_change(Turn& turn, const ChangeJob& command);

}  // namespace shoal::coordinator
