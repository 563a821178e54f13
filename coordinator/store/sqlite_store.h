// The SQLite engine behind store.h: the writer thread with its bounded queue and group commit.
// Store::open builds one; tests use this header to reach what the interface hides.
//
// The writer takes every batch that is queued, at most kGroupMax, runs them in one IMMEDIATE
// transaction and then calls their `done` in order. Telemetry is written when no state waits, or
// when its queue is half full. Between them it takes away what is old (history.h), a step at a
// time. After a failed commit every later batch fails with the same error.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/flat_map.h"
#include "coordinator/meters/meters.h"
#include "coordinator/store/folder_lock.h"
#include "coordinator/store/history.h"
#include "coordinator/store/sqlite.h"
#include "coordinator/store/store.h"
#include "coordinator/store/telemetry.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class SqliteStore final : public Store {
 public:
  static constexpr std::size_t kGroupMax = 256;               // batches per transaction
  static constexpr std::size_t kTelemetryQueueMax = 100'000;  // points; as many rows of devices

  static Result<std::unique_ptr<SqliteStore>> open(
      const std::string& folder, HistoryRules rules = {},
      std::shared_ptr<Meters> meters = std::make_shared<Meters>());
  ~SqliteStore() override;

  Result<Snapshot> load() override;
  void write(std::vector<Record> records, std::function<void(Status)> done) override;
  Result<MachineTables> load_machines() override;
  void write_machines(std::vector<MachineRow> rows, std::function<void(Status)> done) override;
  Result<PeopleTables> load_people() override;
  void write_people(std::vector<PeopleRow> rows, std::function<void(Status)> done) override;
  Result<FileTables> load_files() override;
  void write_files(std::vector<FileRow> rows, std::function<void(Status)> done) override;
  void append(std::vector<SeriesPoint> points) override;
  void forget_after(JobId job, RoundNumber round) override;
  void append_devices(DeviceLog log) override;
  void forget_devices(AgentId agent) override;
  std::unique_ptr<Reader> reader() override;
  StoreStats stats() const override;
  const std::string& folder() const override { return folder_; }

 private:
  struct Batch {
    std::vector<Record> records;
    std::vector<MachineRow> machines;
    std::vector<PeopleRow> people;
    std::vector<FileRow> files;
    std::function<void(Status)> done;
  };

  SqliteStore(std::string folder, std::unique_ptr<FolderLock> lock, std::unique_ptr<Database> state,
              std::unique_ptr<TelemetryWriter> telemetry, HistoryRules rules,
              std::shared_ptr<Meters> meters);
  std::string path(const char* name) const { return folder_ + "/" + name; }
  void run() SHOAL_EXCLUDES(mutex_);
  void queue(Batch batch) SHOAL_EXCLUDES(mutex_);
  void commit(std::vector<Batch> group);
  void thin_history();
  Status write_rows(const Batch& batch);
  Status write_group(const std::vector<Batch>& group);
  struct Telemetry {
    FlatMap<JobId, RoundNumber> forgotten;  // first, of what is in the file: all after this round
    std::vector<SeriesPoint> points;        // then
    std::vector<AgentId> forgotten_agents;  // after what is in `devices`
    DeviceLog devices;
    bool empty() const {
      return forgotten.empty() && points.empty() && forgotten_agents.empty() && devices.empty();
    }
  };
  void write_telemetry(const Telemetry& told);

  const std::string folder_;
  const std::shared_ptr<Meters> meters_;
  const std::unique_ptr<FolderLock> lock_;
  const std::unique_ptr<Database> state_;             // writer thread only
  const std::unique_ptr<TelemetryWriter> telemetry_;  // writer thread only
  Status failure_;                                    // writer thread only
  History history_;                                   // writer thread only
  // When its next step is; writer thread only.
  std::chrono::steady_clock::time_point history_due_;

  mutable Mutex mutex_;
  CondVar work_, room_;
  std::deque<Batch> batches_ SHOAL_GUARDED_BY(mutex_);
  Telemetry told_ SHOAL_GUARDED_BY(mutex_);
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;
  std::thread writer_;  // last: it uses all of the above
};

}  // namespace shoal::coordinator
