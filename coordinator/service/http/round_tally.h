// Counts, since the start of the process, how the rounds of each job ended and what became of the
// contributions to them. It reads the rounds that were committed since it last looked, and their
// contributions, so that rounds without events (ddp) are counted too; a bounded number at a time.
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "base/flat_map.h"
#include "base/result.h"
#include "coordinator/store/reader.h"

namespace shoal::coordinator::rest {

class RoundTally {
 public:
  static constexpr std::size_t kStates = static_cast<std::size_t>(ContributionState::kMoved) + 1;
  static constexpr std::size_t kReasons = static_cast<std::size_t>(RejectReason::kLeftOut) + 1;
  // Of one job are counted at most so many rounds at a time, the newest ones.
  static constexpr int kRoundsMax = 2000;

  struct Counts {
    std::int64_t committed = 0, aborted = 0;
    std::array<std::int64_t, kStates> contributions{};  // to committed rounds, by state
    std::array<std::int64_t, kReasons> rejected{};
  };

  // Nothing that was committed before is counted.
  Status begin(Reader& reader);
  Status count(Reader& reader, const JobRecord& job);
  void count_aborted(JobId job) { ++jobs_[job].counts.aborted; }

  Counts of(JobId job) const;
  void forget(JobId job) { jobs_.erase(job); }

 private:
  struct Tally {
    std::int64_t lineage = 0;
    RoundNumber round = 0;  // counted up to it
    Counts counts;
  };
  static Status add_round(Reader& reader, const RoundKey& key, Counts& counts);

  FlatMap<JobId, Tally> jobs_;
};

}  // namespace shoal::coordinator::rest
