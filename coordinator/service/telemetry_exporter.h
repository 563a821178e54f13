// Turns what passes through the runtime into telemetry: four series per replica from its Progress,
// the values that its program logs (`log.NAME`, up to 64 names per job), and for each committed
// round the job's loss, duration, speed and bytes. Thread-safe. It keeps only what it needs to
// compute differences: the bytes and tokens of each job up to its last committed round. It ignores
// what trainers still report about an epoch that was given up.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/flat_map.h"
#include "coordinator/store/store.h"
#include "messages/messages.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class TelemetryExporter {
 public:
  explicit TelemetryExporter(const Snapshot& snapshot);

  std::vector<SeriesPoint> from_progress(Instant now, const Progress& progress);
  std::vector<SeriesPoint> from_record(Instant now, const Record& record);  // a durable record

  // The round that the job rolled back to: the points of later rounds must be deleted. To be called
  // before from_record() of the same record.
  std::optional<RoundNumber> went_back_to(const JobRecord& job);

 private:
  struct Totals {
    std::int64_t epoch = 0;
    RoundNumber round = 0;
    Tokens tokens;
    Bytes sent;
  };
  bool takes_name(JobId job, const std::string& name) SHOAL_REQUIRES(mutex_);
  std::vector<SeriesPoint> from_job(Instant now, const JobRecord& job) SHOAL_REQUIRES(mutex_);
  static std::vector<SeriesPoint> from_round(const RoundRecord& round);

  Mutex mutex_;
  FlatMap<JobId, Totals> totals_ SHOAL_GUARDED_BY(mutex_);
  // Bounds what a program can store that makes up ever new names.
  FlatMap<JobId, std::set<std::string>> logged_names_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::coordinator
