// Counts, since the start of the process, what became durable: events, how the rounds of each job
// ended, and what became of the contributions to them. It sees every record once and in order, so a
// round counts when it is committed and stays counted when its job goes back to a checkpoint. Kept
// are one row of counts per job, the contributions to rounds that are not committed yet, and the
// size of every checkpoint that is there. Thread-safe.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/service/cluster.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class DurableCounters {
 public:
  static constexpr std::size_t kEndedJobsMax = 1000;  // whose counts are kept, the newest

  // What the store held at the start is known and not counted.
  explicit DurableCounters(const Snapshot& snapshot);

  // Records that became durable together.
  void count(const std::vector<Record>& records);

  Counts counts() const;

 private:
  struct Contributed {
    ContributionState state;
    RejectReason reason;
    Steps skipped;
  };
  struct Kept {
    bool stored = false;
    Bytes size;
  };
  struct Job {
    RoundKey counted;  // it and all before it
    std::map<std::pair<RoundKey, ReplicaId>, Contributed> open;
    bool ended = false;
  };
  void note(const Record& record) SHOAL_REQUIRES(mutex_);
  void note_event(const EventRecord& event) SHOAL_REQUIRES(mutex_);
  void note_job(const JobRecord& record) SHOAL_REQUIRES(mutex_);
  void note_contribution(const ContributionRecord& contribution) SHOAL_REQUIRES(mutex_);
  void note_checkpoint(const CheckpointRecord& checkpoint) SHOAL_REQUIRES(mutex_);
  void close(const RoundKey& key) SHOAL_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<JobId, Job> jobs_ SHOAL_GUARDED_BY(mutex_);
  std::deque<JobId> ended_ SHOAL_GUARDED_BY(mutex_);
  std::set<RoundKey> committed_
      SHOAL_GUARDED_BY(mutex_);  // by the records at hand, whose contributions may come behind
  std::map<CheckpointId, Kept> checkpoints_ SHOAL_GUARDED_BY(mutex_);
  Counts counts_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::coordinator
