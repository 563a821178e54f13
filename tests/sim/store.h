// The coordinator's database in memory. A batch is queued, becomes durable after a drawn delay as a
// whole or not at all, and batches keep their order: what coordinator/store promises. A crash
// forgets what was not durable yet; the batch that was being written may have made it or not, and
// of one that was torn the next start forgets the part that reached the disk.
//
// A write may fail. That is final, as in coordinator/store: the writer is told, and nothing more
// is written before the process has ended and started again. After a failed fsync the batch may be
// on disk nevertheless; a full disk keeps nothing of it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "coordinator/core/records/records.h"
#include "tests/sim/event_queue.h"

namespace shoal::sim {

using coordinator::Record;

struct Tables {
  coordinator::CounterRecord counters;
  std::map<JobId, coordinator::JobRecord> jobs;
  std::map<AgentId, coordinator::AgentRecord> agents;
  std::map<ReplicaId, coordinator::ReplicaRecord> replicas;
  std::map<RoundKey, coordinator::RoundRecord> rounds;
  std::map<std::pair<RoundKey, ReplicaId>, coordinator::ContributionRecord> contributions;
  std::map<CheckpointId, coordinator::CheckpointRecord> checkpoints;
  std::map<std::pair<AgentId, AgentId>, coordinator::LinkRecord> links;
  std::int64_t events = 0;

  void apply(const Record& record);
  // By the rule of coordinator::Snapshot.
  coordinator::Snapshot snapshot() const;
};

enum class StoreCrash {
  kClean,
  kTorn,         // a part of the batch that was being written reached the disk
  kLoseDurable,  // a planted bug: the newest batches that were called durable are gone as well
  kKeepTorn,     // a planted bug: what was torn is taken for whole
};

class SimStore {
 public:
  // `on_durable` sees each record just before it is applied to tables().
  SimStore(EventQueue& queue, std::uint64_t seed,
           std::function<void(const Record&, const Tables&)> on_durable)
      : queue_(queue), prng_(seed), on_durable_(std::move(on_durable)) {}

  void set_delay(Duration mean) { mean_ = mean; }
  void keep_history() { keep_history_ = true; }
  // `done` is told whether the batch is durable.
  void write(std::vector<Record> records, std::function<void(bool durable)> done);
  void crash(StoreCrash crash = StoreCrash::kClean);
  // The process that writes is stopped, and continues.
  void pause() { paused_ = true; }
  void resume();

  // ---- faults
  void fail_next_fsync() { fail_fsync_ = true; }
  void fill_until(Instant until) { full_until_ = until; }
  bool is_full() const { return queue_.now() < full_until_; }
  std::function<void(bool full)> on_failure;  // a write failed for one of these two reasons

  bool idle() const { return batches_.empty(); }
  const Tables& tables() const { return tables_; }

  // ---- backups
  // A copy now and then, the newest few of them.
  void keep_backups() { keep_backups_ = true; }
  std::size_t backups() const { return backups_.size(); }
  // Puts one back, 0 is the newest; the process must not run.
  void restore(std::size_t back);
  void forget_mark() { tables_.counters.backup_at = {}; }  // a planted bug

 private:
  struct Batch {
    std::vector<Record> records;
    std::function<void(bool)> done;
  };
  bool lost_a_commit() const;
  void start_front();
  void end_of_write();
  void commit_front();
  bool fail_front();
  void tear_front(bool keep);
  void keep_backup();

  EventQueue& queue_;
  Prng prng_;
  std::function<void(const Record&, const Tables&)> on_durable_;
  Duration mean_ = milliseconds(2);
  std::uint64_t life_ = 0;
  Tables tables_;
  std::deque<Tables> history_;  // before the newest batches; kept only for the planted bug
  bool keep_history_ = false;
  std::deque<Batch> batches_;
  bool paused_ = false, held_ = false;  // held: a write ended while it was paused
  bool failed_ = false, fail_fsync_ = false;
  Instant full_until_;
  bool keep_backups_ = false;
  Instant backup_due_;
  std::deque<Tables> backups_;  // newest last
};

}  // namespace shoal::sim
