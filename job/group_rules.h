// The rules of a job that averages in groups (sync.topology = moshpit or gossip): what it cannot
// do, and with how much momentum its replicas stay together.
#pragma once

#include "job/field_checker.h"

namespace shoal {

void check_groups(const JobSpec& spec, FieldChecker& checker);

}  // namespace shoal
