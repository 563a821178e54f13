// What takes the space in the two databases, and how much of it is of which job.
#pragma once

#include "base/result.h"
#include "coordinator/store/reader.h"
#include "coordinator/store/sqlite.h"

namespace shoal::coordinator {

// Reads every page of both. A row counts as the mean of its table, with its share of the indexes.
Result<DatabaseSpace> read_space(Database& state, Database& telemetry);

}  // namespace shoal::coordinator
