// Jobs: given devices, moved through their phases, rolled back, ended. Placement is decided in
// decisions/placement.h and carried out here.
#pragma once

#include <string>

#include "coordinator/core/state/turn.h"

namespace shoal::coordinator {

// Moves every live job as far as the present state and time allow.
void advance_jobs(Turn& turn);

// Lets its replicas go and ends its round; `phase` is a terminal one.
void finish_job(Turn& turn, JobId id, JobPhase phase, JobReason reason, std::string detail = {});

}  // namespace shoal::coordinator
