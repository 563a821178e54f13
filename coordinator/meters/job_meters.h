// Counters and histograms with the label job_id. The series of a job exist from its beginning, at
// zero, until remove_ended() or remove() takes them away. Of very many jobs that have ended, the
// oldest go first, so a coordinator without a scraper keeps a bounded number. Events of a job
// without series are ignored. Thread-safe.
#pragma once

#include <deque>
#include <map>
#include <utility>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"
#include "coordinator/core/records/contribution_record.h"
#include "coordinator/meters/families.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

// One series, which leaves its family with this object.
template <typename Metric>
class Series {
 public:
  template <typename... Arguments>
  Series(prometheus::Family<Metric>& family, const prometheus::Labels& labels,
         Arguments&&... arguments)
      : family_(&family), metric_(&family.Add(labels, std::forward<Arguments>(arguments)...)) {}
  Series(Series&& other) noexcept
      : family_(other.family_), metric_(std::exchange(other.metric_, nullptr)) {}
  Series& operator=(Series&&) = delete;
  ~Series() {
    if (metric_ != nullptr) family_->Remove(metric_);
  }
  Metric* operator->() { return metric_; }

 private:
  prometheus::Family<Metric>* family_;
  Metric* metric_;
};

class JobMeters {
 public:
  static constexpr std::size_t kEndedMax = 1000;  // ended jobs that keep their series

  explicit JobMeters(prometheus::Registry& registry) : families_(registry) {}

  void begin(JobId job);  // nothing if it has begun
  void end(JobId job, Instant at);
  void remove(JobId job);
  void remove_ended(Instant before);  // jobs that ended before this time

  void round_committed(JobId job, Duration took);
  void round_aborted(JobId job);
  void reduced(JobId job, Duration took);  // one reduce of a committed round
  void contributed(JobId job, ContributionState state, RejectReason reason);
  void skipped(JobId job, Steps steps);
  void joined(JobId job, Duration took);
  void stored_checkpoint(JobId job, Duration took);
  void hop(JobId job, StageIndex from, Duration round_trip);

 private:
  struct Families {
    explicit Families(prometheus::Registry& registry);
    prometheus::Family<prometheus::Counter>&rounds, &contributions, &rejected, &skipped;
    prometheus::Family<prometheus::Histogram>&round_seconds, &reduce_seconds, &join_seconds,
        &checkpoint_seconds, &hop_seconds;
  };
  struct Job {
    Job(JobId id, const Families& families);
    using Count = Series<prometheus::Counter>;
    using Times = Series<prometheus::Histogram>;
    Count committed, aborted, skipped;
    std::map<ContributionState, Count> contributions;
    std::map<RejectReason, Count> rejected;
    Times rounds, reduces, joins, checkpoints;
    std::map<StageIndex, Times> hops;
    bool ended = false;
  };
  Job* find(JobId job) SHOAL_REQUIRES(mutex_);

  const Families families_;
  Mutex mutex_;
  std::map<JobId, Job> jobs_ SHOAL_GUARDED_BY(mutex_);
  std::deque<std::pair<Instant, JobId>> ended_ SHOAL_GUARDED_BY(mutex_);  // in the order of ends
};

}  // namespace shoal::coordinator
