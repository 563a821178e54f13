// The rules of a job with eager updates (sync.eager): what else it must have and what it cannot do.
// Those of sync.overlap_steps, without which there are none, hold as well.
#pragma once

#include "job/field_checker.h"

namespace shoal {

void check_eager(const SyncSpec& sync, FieldChecker& checker);

}  // namespace shoal
