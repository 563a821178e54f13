// Jobs: given devices and moved through their phases. Placement is decided in
// decisions/placement.h and carried out here; how a job leaves its devices is in releases.h.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Moves every live job as far as the present state and time allow.
void advance_jobs(Transaction& tx);

}  // namespace shoal::coordinator
