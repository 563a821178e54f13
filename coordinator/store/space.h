// What takes the space in the two databases, and how much of it is of which job. Asked seldom: it
// opens them itself, and reads every page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/flat_map.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"

namespace shoal::coordinator {

struct TableSpace {
  std::string name;
  std::int64_t rows = 0;
  Bytes bytes;  // with its indexes
};
// A row counts as the mean of its table, with its share of the indexes.
struct DatabaseSpace {
  std::vector<TableSpace> tables;  // of state.db, the largest first
  FlatMap<JobId, Bytes> history;   // rounds, contributions, replicas and events of a job
  FlatMap<JobId, Bytes> series;    // its points in telemetry.db
};

// The store in `folder` may be in use. kDeadlineExceeded: one of its tables takes longer
// than ten seconds to read.
Result<DatabaseSpace> read_space(const std::string& folder);

}  // namespace shoal::coordinator
