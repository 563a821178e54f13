// What the tables lose as they age, and what is left in them of removed jobs. A pass goes through
// them in small steps, each a short transaction, so that no write waits long for one.
//
// What a restart needs is never taken: the record of a job, the last committed round of one that
// has not ended and the round that it works on, replicas that live, checkpoints that are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/history_rules.h"
#include "coordinator/store/sqlite.h"
#include "coordinator/store/telemetry.h"

namespace shoal::coordinator {

// Used by the writer thread. Both databases must outlive it.
class History {
 public:
  static constexpr int kRoundsAStep = 100, kRowsAStep = 1000;

  History(Database& state, TelemetryWriter& telemetry, HistoryRules rules)
      : state_(state), telemetry_(telemetry), rules_(rules) {}

  // The next step of a pass; false: that was the last one. After an error the pass starts over.
  Result<bool> step();
  void begin_anew() { part_.reset(); }

 private:
  using Part = Result<bool> (History::*)();  // one step of it; false: it is done
  static const std::vector<Part>& parts();

  Status look_at_time();
  Result<bool> thin_rounds();
  Result<bool> forget_events();
  Result<bool> forget_replicas();
  Result<bool> forget_checkpoints();
  Result<bool> forget_texts();
  Result<bool> forget_series();
  Result<bool> thin_points();

  Result<bool> forget_by_id(const std::string& table, const std::string& due);
  Status delete_rounds(const std::string& range, const std::vector<std::int64_t>& values);
  // Runs one statement; how many rows it changed.
  Result<std::int64_t> change(const std::string& sql, const std::vector<std::int64_t>& values);
  Result<bool> is_over(std::int64_t job);  // removed, or ended before keep_cut_

  Database& state_;
  TelemetryWriter& telemetry_;
  const HistoryRules rules_;
  std::optional<std::size_t> part_;           // none: no pass has begun
  std::int64_t keep_cut_ = 0, full_cut_ = 0;  // what is older goes; 0: nothing is
  std::vector<std::int64_t> after_;           // key of the last row that the part has looked at
};

}  // namespace shoal::coordinator
