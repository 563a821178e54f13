// The coordinator's database in memory. A batch is queued, becomes durable after a drawn delay as a
// whole or not at all, and batches keep their order: what coordinator/store promises. A crash
// forgets what was not durable yet; the batch that was being written may have made it or not.
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

class SimStore {
 public:
  // `on_durable` sees each record just before it is applied to tables().
  SimStore(EventQueue& queue, std::uint64_t seed,
           std::function<void(const Record&, const Tables&)> on_durable)
      : queue_(queue), prng_(seed), on_durable_(std::move(on_durable)) {}

  void set_delay(Duration mean) { mean_ = mean; }
  void keep_history() { keep_history_ = true; }
  void write(std::vector<Record> records, std::function<void()> done);
  // With `lose_durable` a planted bug: the newest batches that were called durable are gone as
  // well.
  void crash(bool lose_durable = false);

  bool idle() const { return batches_.empty(); }
  const Tables& tables() const { return tables_; }

 private:
  struct Batch {
    std::vector<Record> records;
    std::function<void()> done;
  };
  bool lost_a_commit() const;
  void start_front();
  void commit_front();

  EventQueue& queue_;
  Prng prng_;
  std::function<void(const Record&, const Tables&)> on_durable_;
  Duration mean_ = milliseconds(2);
  std::uint64_t life_ = 0;
  Tables tables_;
  std::deque<Tables> history_;  // before the newest batches; kept only for the planted bug
  bool keep_history_ = false;
  std::deque<Batch> batches_;
};

}  // namespace shoal::sim
