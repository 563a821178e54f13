// Jobs: accepted or refused at the door, given devices, moved through their phases, ended.
// Placement is decided in placement.h and carried out here.
#pragma once

#include "coordinator/core/state/turn.h"

namespace shoal::coordinator {

void on_submit(Turn& turn, const SubmitJob& command);
void on_cancel(Turn& turn, const CancelJob& command);
void on_change(Turn& turn, const ChangeJob& command);

// Moves every live job as far as the present state and time allow.
void advance_jobs(Turn& turn);

}  // namespace shoal::coordinator
