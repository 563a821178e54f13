// Turns durable records into metrics: events, ends of rounds, outcomes of contributions, and how
// long rounds, reduces, joins and checkpoints took. It sees every record once and in order, so a
// round counts when it is committed and stays counted when its job goes back to a checkpoint. It
// keeps the contributions to rounds that are not committed yet, the replicas that have not served
// yet, and the size of every checkpoint that is there. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/service/cluster.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class RecordObserver {
 public:
  // What the store held at the start is known and not counted.
  RecordObserver(const Snapshot& snapshot, std::shared_ptr<Meters> meters);

  // Records that became durable together.
  void observe(Instant now, const std::vector<Record>& records);

  CheckpointSpace checkpoint_space() const;

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
  struct Job {         // that has not ended
    RoundKey counted;  // it and all before it
    std::map<std::pair<RoundKey, ReplicaId>, Contributed> open;
    std::map<RoundKey, Instant> voting_at;  // when the first vote on an open round was seen
  };
  struct Batch {  // until all of its records were seen: their order is not that of events
    std::map<RoundKey, const RoundRecord*> committed;
    std::map<JobId, Instant> ended;
  };
  void note(const EventRecord& event);
  void note(const JobRecord& record, Batch& batch) SHOAL_REQUIRES(mutex_);
  void note(Instant now, const RoundRecord& round, Batch& batch) SHOAL_REQUIRES(mutex_);
  void note(const ContributionRecord& contribution) SHOAL_REQUIRES(mutex_);
  void note(const ReplicaRecord& replica) SHOAL_REQUIRES(mutex_);
  void note(const CheckpointRecord& checkpoint) SHOAL_REQUIRES(mutex_);
  void close(const RoundRecord& round) SHOAL_REQUIRES(mutex_);
  void count_reduces(const RoundRecord& round, Instant voting_at);

  const std::shared_ptr<Meters> meters_;
  mutable Mutex mutex_;
  std::map<JobId, Job> jobs_ SHOAL_GUARDED_BY(mutex_);
  std::set<ReplicaId> joining_ SHOAL_GUARDED_BY(mutex_);
  std::map<CheckpointId, Kept> checkpoints_ SHOAL_GUARDED_BY(mutex_);
  CheckpointSpace space_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::coordinator
