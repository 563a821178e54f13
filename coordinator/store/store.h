// The durable side of the coordinator: records in, snapshot out. This header knows no SQL; SQLite
// is the first engine behind it (sqlite_store.cc), another one can take its place.
//
// One writer thread owns the one read-write connection and does every write and every checkpoint of
// the database; readers (reader.h) open it read-only. That is what keeps SQLite 3.40.1's WAL-reset
// bug out. Two files in the folder: state.db (precious, synchronous=FULL) and telemetry.db (series,
// NORMAL).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/core/records/records.h"
#include "coordinator/store/device_history.h"
#include "coordinator/store/file_rows.h"
#include "coordinator/store/machine_rows.h"
#include "coordinator/store/people_rows.h"
#include "coordinator/store/reader.h"

namespace shoal::coordinator {

// One value of one series of a job. Series names are closed words: train_loss, validation_loss,
// tokens_per_second, learning_rate, gradient_norm, round_bytes, round_seconds.
struct SeriesPoint {
  JobId job;
  std::string name;
  ReplicaId replica;      // zero: of the whole job
  std::int64_t step = 0;  // inner steps of the job's schedule
  RoundNumber round = 0;
  Tokens tokens;
  Instant at;
  double value = 0;
};

struct StoreStats {  // of the moment; coordinator/meters counts writes
  std::int64_t queue_depth = 0;
  Bytes state_file, telemetry_file, wal_file;
};

class Store {
 public:
  // Opens or creates the folder, takes its lock, migrates (after a backup). Errors name the remedy:
  // kConflict "another coordinator uses this folder (pid N)", kIncompatible "made by a newer
  // version".
  static Result<std::unique_ptr<Store>> open(const std::string& folder);
  virtual ~Store() = default;  // writes what is queued, then closes

  virtual Result<Snapshot> load() = 0;

  // Queues one batch, which becomes durable as a whole or not at all; batches keep their order and
  // may share a transaction. `done` runs on the writer thread after the commit. At most kQueueMax
  // batches wait; a further call blocks. A failed write is final: the process must stop (done gets
  // the error).
  virtual void write(std::vector<Record> records, std::function<void(Status)> done) = 0;
  static constexpr std::int64_t kQueueMax = 4096;

  // The machines; the same file and the same rules as load() and write().
  virtual Result<MachineTables> load_machines() = 0;
  virtual void write_machines(std::vector<MachineRow> rows, std::function<void(Status)> done) = 0;
  // The same for people.
  virtual Result<PeopleTables> load_people() = 0;
  virtual void write_people(std::vector<PeopleRow> rows, std::function<void(Status)> done) = 0;
  // The same for uploaded files and datasets.
  virtual Result<FileTables> load_files() = 0;
  virtual void write_files(std::vector<FileRow> rows, std::function<void(Status)> done) = 0;

  // Telemetry is disposable: when its queue is full, points are dropped and counted.
  virtual void append(std::vector<SeriesPoint> points) = 0;

  // Forgets the points of the rounds after `round`: the job went back to it, and what was appended
  // before this call belongs to a history that no longer counts.
  virtual void forget_after(JobId job, RoundNumber round) = 0;

  // Telemetry, too.
  virtual void append_devices(DeviceLog log) = 0;
  virtual void forget_devices(AgentId agent) = 0;

  virtual std::unique_ptr<Reader> reader() = 0;  // one per thread
  virtual StoreStats stats() const = 0;
  virtual const std::string& folder() const = 0;
};

}  // namespace shoal::coordinator
