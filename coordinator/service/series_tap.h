// Turns what passes through the runtime into telemetry: four series per replica from its Progress,
// and per committed round the job's loss, duration, speed and bytes. Thread-safe; it keeps only
// what a difference needs (bytes and tokens of each job up to its last committed round).
#pragma once

#include <mutex>
#include <vector>

#include "base/flat_map.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {

class SeriesTap {
 public:
  explicit SeriesTap(const Snapshot& snapshot);

  std::vector<SeriesPoint> from_progress(Instant now, const Progress& progress);
  std::vector<SeriesPoint> from_record(Instant now, const Record& record);  // that became durable

 private:
  struct Totals {
    RoundNumber round = 0;
    Tokens tokens;
    Bytes sent;
  };
  std::vector<SeriesPoint> from_job(Instant now, const JobRecord& job);
  std::vector<SeriesPoint> from_round(Instant now, const RoundRecord& round);

  std::mutex mutex_;
  FlatMap<JobId, Totals> totals_;
};

}  // namespace shoal::coordinator
