// Time series of jobs, and the history of devices (device_history.h), in telemetry.db: disposable,
// so a write that fails is counted and forgotten, and a file that is damaged or of another version
// is set aside for an empty one. One row per series (job, name, replica), one per point, clustered
// by (series, step); a step told twice, after a rollback or a resend, is replaced.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "coordinator/store/device_history.h"
#include "coordinator/store/sqlite.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {

inline constexpr const char* kSetAsideSuffix = ".damaged";

// The writing side; belongs to the store's writer thread.
class TelemetryWriter {
 public:
  static Result<std::unique_ptr<TelemetryWriter>> open(const std::string& path);
  // All in one transaction. Values that are not finite are left out: a chart cannot show them.
  Status append(const std::vector<SeriesPoint>& points);
  Status forget_after(JobId job, RoundNumber round);
  Status append(const DeviceLog& log);  // in one transaction
  Status forget(AgentId agent);         // its devices

  // For history.h, each a short transaction of at most `rows`.
  Result<std::int64_t> job_after(std::int64_t job);      // the next one that has series; 0: none
  Result<bool> forget_some(std::int64_t job, int rows);  // false: nothing of it is left
  // Older than `cut`, the first point of each series in ten rounds stays. Looks at the
  // rows behind the key `after`, and moves it; false: there are no more.
  Result<bool> thin_some(std::vector<std::int64_t>& after, std::int64_t cut, int rows);

 private:
  explicit TelemetryWriter(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  Result<std::int64_t> series_id(const SeriesPoint& point);
  Status append_in_transaction(const std::vector<SeriesPoint>& points);

  std::unique_ptr<Database> database_;
  std::map<std::tuple<std::uint64_t, std::string, std::uint64_t>, std::int64_t> ids_;
};

// The reading side, on a read-only connection. A series that exists for the whole job (replica
// zero) is preferred to the mean of the replicas, unless the query asks for the replicas.
Result<std::vector<SeriesNewest>> read_series_of(Database& database, JobId job);
Result<std::vector<SeriesLine>> read_series(Database& database, const SeriesQuery& query);

}  // namespace shoal::coordinator
