#include "coordinator/store/sqlite_store.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "coordinator/store/migrator.h"
#include "coordinator/store/rows.h"
#include "coordinator/store/sqlite_reader.h"

namespace shoal::coordinator {
namespace {

// The first look for old rows waits, so that it does not delay the start.
constexpr std::chrono::seconds kHistoryFirst{60}, kHistoryEvery{3600};
constexpr std::chrono::milliseconds kHistoryPause{20};  // between two steps, for readers

bool removes_job(const Record& record) {
  const auto* job = std::get_if<JobRecord>(&record);
  return job != nullptr && job->removed_at.ns != 0;
}

std::int64_t file_size(const std::string& path) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  return missing ? 0 : static_cast<std::int64_t>(size);
}

// SQLite takes a file that is shorter than any page for a new database. A first start that died may
// have left one; in a folder that was in use it was lost, and a start on it would forget the
// cluster.
Status refuse_emptied(const std::string& folder) {
  constexpr std::int64_t kPageMin = 512;
  const std::string path = folder + "/state.db";
  std::error_code unseen;
  const bool empty = std::filesystem::is_regular_file(path, unseen) && file_size(path) < kPageMin;
  if (!empty || !std::filesystem::exists(folder + "/telemetry.db", unseen)) return {};
  if (file_size(path + "-wal") > 0) return {};  // where everything still is
  return Error{
      Code::kDataLoss, "the file is empty, although the folder was in use", path,
      "restore it from a backup (docs/backup.md), or delete it to start with an empty one"};
}

// Pages that SQLite cannot read are found before anything is told from the others, as long as that
// takes no longer than kCheckMs: trainers wait. `shoal-coordinator --check-store` reads everything.
Status refuse_damaged(Database& database, const std::string& path) {
  constexpr std::int64_t kCheckMs = 10'000;
  database.set_query_limit_ms(kCheckMs);
  const auto damage = database.damage(false);
  database.set_query_limit_ms(0);
  if (!damage && damage.error().code == Code::kDeadlineExceeded) return {};
  if (!damage) return damage.error();
  if (damage->empty()) return {};
  return Error{Code::kDataLoss, "the file is damaged: " + *damage, path,
               "restore it from a backup (docs/backup.md)"};
}

Error about(const std::string& path, Error error) {
  error.field = path;
  return error;
}

// Looked at without a change: what is refused stays as it was.
Status refuse_unusable(const std::string& folder) {
  if (Status s = refuse_emptied(folder); !s.ok()) return s;
  const std::string path = folder + "/state.db";
  if (std::error_code unseen; file_size(path) == 0 && !std::filesystem::is_directory(path, unseen))
    return {};  // a new one
  auto database = Database::open(path, OpenMode::kReadOnly, Durability::kFull);
  if (!database) return database.error();
  if (Status s = refuse_damaged(**database, path); !s.ok()) return s;
  const auto version = known_version(**database, embedded_migrations());
  return version ? Status() : Status(about(path, version.error()));
}

template <typename R>
Status read_table(Database& database, std::vector<R>& rows) {
  auto statement = database.prepare(select_sql<R>());
  if (!statement) return statement.error();
  auto read = read_all<R>(*statement);
  if (!read) return read.error();
  rows = std::move(read).value();
  return {};
}

// The tables, of this version.
Result<std::unique_ptr<Database>> open_state(const std::string& folder) {
  const std::string path = folder + "/state.db";
  if (Status s = refuse_unusable(folder); !s.ok()) return s.error();
  auto state = Database::open(path, OpenMode::kReadWrite, Durability::kFull);
  if (!state) return state.error();
  if (Status s = migrate(**state, embedded_migrations(), folder + "/state.pre"); !s.ok())
    return about(path, s.error());
  return state;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& folder) {
  return open_store(folder, {});
}

Result<std::unique_ptr<Store>> open_store(const std::string& folder, HistoryRules rules,
                                          std::shared_ptr<Meters> meters) {
  auto store = SqliteStore::open(folder, rules, std::move(meters));
  if (!store) return store.error();
  return std::unique_ptr<Store>(std::move(store).value());
}

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const std::string& folder,
                                                       HistoryRules rules,
                                                       std::shared_ptr<Meters> meters) {
  auto lock = FolderLock::take(folder);
  if (!lock) return lock.error();
  auto state = open_state(folder);
  if (!state) return state.error();
  auto telemetry = TelemetryWriter::open(folder + "/telemetry.db");
  if (!telemetry) return telemetry.error();
  return std::unique_ptr<SqliteStore>(
      new SqliteStore(folder, std::move(lock).value(), std::move(state).value(),
                      std::move(telemetry).value(), rules, std::move(meters)));
}

SqliteStore::SqliteStore(std::string folder, std::unique_ptr<FolderLock> lock,
                         std::unique_ptr<Database> state,
                         std::unique_ptr<TelemetryWriter> telemetry, HistoryRules rules,
                         std::shared_ptr<Meters> meters)
    : folder_(std::move(folder)),
      meters_(std::move(meters)),
      lock_(std::move(lock)),
      state_(std::move(state)),
      telemetry_(std::move(telemetry)),
      history_(*state_, *telemetry_, rules),
      history_due_(std::chrono::steady_clock::now() + kHistoryFirst),
      writer_([this] { run(); }) {}

SqliteStore::~SqliteStore() {
  {
    const MutexLock guard(mutex_);
    closing_ = true;
  }
  work_.notify_all();
  writer_.join();
}

Result<Snapshot> SqliteStore::load() {
  const auto database = Database::open(path("state.db"), OpenMode::kReadOnly, Durability::kFull);
  if (!database) return database.error();
  return read_snapshot(**database);
}

Result<MachineTables> SqliteStore::load_machines() {
  const auto database = Database::open(path("state.db"), OpenMode::kReadOnly, Durability::kFull);
  if (!database) return database.error();
  MachineTables tables;
  if (Status s = read_table(**database, tables.authorities); !s.ok()) return s.error();
  if (Status s = read_table(**database, tables.tokens); !s.ok()) return s.error();
  if (Status s = read_table(**database, tables.machines); !s.ok()) return s.error();
  return tables;
}

Result<PeopleTables> SqliteStore::load_people() {
  const auto database = Database::open(path("state.db"), OpenMode::kReadOnly, Durability::kFull);
  if (!database) return database.error();
  PeopleTables tables;
  if (Status s = read_table(**database, tables.tokens); !s.ok()) return s.error();
  if (Status s = read_table(**database, tables.sessions); !s.ok()) return s.error();
  auto newest = (*database)->prepare("SELECT coalesce(max(seq), 0) FROM audit");
  if (!newest) return newest.error();
  const auto row = newest->step();
  if (!row) return row.error();
  if (*row) tables.audit_seq = newest->integer(0);
  return tables;
}

Result<FileTables> SqliteStore::load_files() {
  const auto database = Database::open(path("state.db"), OpenMode::kReadOnly, Durability::kFull);
  if (!database) return database.error();
  FileTables tables;
  if (Status s = read_table(**database, tables.files); !s.ok()) return s.error();
  if (Status s = read_table(**database, tables.datasets); !s.ok()) return s.error();
  return tables;
}

void SqliteStore::write(std::vector<Record> records, std::function<void(Status)> done) {
  queue({std::move(records), {}, {}, {}, std::move(done)});
}

void SqliteStore::write_machines(std::vector<MachineRow> rows, std::function<void(Status)> done) {
  queue({{}, std::move(rows), {}, {}, std::move(done)});
}

void SqliteStore::write_people(std::vector<PeopleRow> rows, std::function<void(Status)> done) {
  queue({{}, {}, std::move(rows), {}, std::move(done)});
}

void SqliteStore::write_files(std::vector<FileRow> rows, std::function<void(Status)> done) {
  queue({{}, {}, {}, std::move(rows), std::move(done)});
}

void SqliteStore::queue(Batch batch) {
  MutexLock guard(mutex_);
  room_.wait(mutex_, [&]() SHOAL_REQUIRES(mutex_) {
    return batches_.size() < static_cast<std::size_t>(kQueueMax);
  });
  batches_.push_back(std::move(batch));
  guard.unlock();
  work_.notify_one();
}

void SqliteStore::append(std::vector<SeriesPoint> points) {
  {
    const MutexLock guard(mutex_);
    const std::size_t room = kTelemetryQueueMax - told_.points.size();
    const std::size_t taken = std::min(room, points.size());
    meters_->store.errors.Increment(static_cast<double>(points.size() - taken));
    std::move(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(taken),
              std::back_inserter(told_.points));
  }
  work_.notify_one();
}

void SqliteStore::forget_after(JobId job, RoundNumber round) {
  {
    const MutexLock guard(mutex_);
    std::erase_if(told_.points, [&](const SeriesPoint& point) {
      return point.job == job && point.round > round;
    });
    const RoundNumber* before = told_.forgotten.find(job);
    told_.forgotten.put(job, before == nullptr ? round : std::min(*before, round));
  }
  work_.notify_one();
}

void SqliteStore::append_devices(DeviceLog log) {
  {
    const MutexLock guard(mutex_);
    DeviceLog& waiting = told_.devices;
    const std::size_t rows = log.states.size() + log.minutes.size();
    if (waiting.states.size() + waiting.minutes.size() + rows > kTelemetryQueueMax) {
      return meters_->store.errors.Increment(static_cast<double>(rows));
    }
    std::ranges::move(log.states, std::back_inserter(waiting.states));
    std::ranges::move(log.minutes, std::back_inserter(waiting.minutes));
  }
  work_.notify_one();
}

void SqliteStore::forget_devices(AgentId agent) {
  {
    const MutexLock guard(mutex_);
    told_.forgotten_agents.push_back(agent);
  }
  work_.notify_one();
}

void SqliteStore::run() {
  MutexLock guard(mutex_);
  for (;;) {
    work_.wait_until(mutex_, history_due_, [&]() SHOAL_REQUIRES(mutex_) {
      return closing_ || !batches_.empty() || !told_.empty();
    });
    if (closing_ && batches_.empty() && told_.empty()) return;
    std::vector<Batch> group;
    while (!batches_.empty() && group.size() < kGroupMax) {
      group.push_back(std::move(batches_.front()));
      batches_.pop_front();
    }
    Telemetry told;
    if (batches_.empty() || told_.points.size() > kTelemetryQueueMax / 2) std::swap(told, told_);
    guard.unlock();
    if (!group.empty()) {
      room_.notify_all();
      commit(std::move(group));
    }
    if (!told.empty()) write_telemetry(told);
    if (std::chrono::steady_clock::now() >= history_due_) thin_history();
    guard.lock();
  }
}

Status SqliteStore::write_rows(const Batch& batch) {
  for (const Record& record : batch.records) {
    if (Status s = write_record(*state_, record); !s.ok()) return s;
  }
  for (const MachineRow& row : batch.machines) {
    if (Status s = write_machine_row(*state_, row); !s.ok()) return s;
  }
  for (const PeopleRow& row : batch.people) {
    if (Status s = write_people_row(*state_, row); !s.ok()) return s;
  }
  for (const FileRow& row : batch.files) {
    if (Status s = write_file_row(*state_, row); !s.ok()) return s;
  }
  return {};
}

Status SqliteStore::write_group(const std::vector<Batch>& group) {
  if (Status s = state_->exec("BEGIN IMMEDIATE"); !s.ok()) return s;
  for (const Batch& batch : group) {
    if (Status s = write_rows(batch); !s.ok()) {
      (void)state_->exec("ROLLBACK");  // the error to report is the first one
      return s;
    }
  }
  Status committed = state_->exec("COMMIT");
  if (!committed.ok()) (void)state_->exec("ROLLBACK");
  return committed;
}

void SqliteStore::commit(std::vector<Batch> group) {
  const auto started = std::chrono::steady_clock::now();
  if (failure_.ok()) failure_ = write_group(group);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - started;
  std::size_t rows = 0;
  for (const Batch& batch : group)
    rows += batch.records.size() + batch.machines.size() + batch.people.size() + batch.files.size();
  meters_->store.wrote(rows, nanoseconds(took.count()), !failure_.ok());
  for (const Batch& batch : group) {
    if (std::ranges::any_of(batch.records, removes_job)) {
      history_.begin_anew();
      history_due_ = started;
    }
    if (batch.done) batch.done(failure_);
  }
}

// A failure here is only retried later. If the database is damaged, the next write fails, which is
// final.
void SqliteStore::thin_history() {
  if (!failure_.ok()) return;
  const Result<bool> more = history_.step();
  const auto now = std::chrono::steady_clock::now();
  history_due_ = more && *more ? now + kHistoryPause : now + kHistoryEvery;
  if (!more) meters_->store.errors.Increment();
}

void SqliteStore::write_telemetry(const Telemetry& told) {
  for (const auto& [job, round] : told.forgotten) {
    if (!telemetry_->forget_after(job, round).ok()) meters_->store.errors.Increment();
  }
  if (!telemetry_->append(told.points).ok()) {
    meters_->store.errors.Increment(static_cast<double>(told.points.size()));
  }
  if (!told.devices.empty() && !telemetry_->append(told.devices).ok()) {
    meters_->store.errors.Increment();
  }
  for (const AgentId agent : told.forgotten_agents) {
    if (!telemetry_->forget(agent).ok()) meters_->store.errors.Increment();
  }
}

std::unique_ptr<Reader> SqliteStore::reader() {
  return open_sqlite_reader(path("state.db"), path("telemetry.db"));
}

StoreStats SqliteStore::stats() const {
  StoreStats stats;
  {
    const MutexLock guard(mutex_);
    stats.queue_depth = static_cast<std::int64_t>(batches_.size());
  }
  stats.state_file = Bytes(file_size(path("state.db")));
  stats.telemetry_file = Bytes(file_size(path("telemetry.db")));
  stats.wal_file = Bytes(file_size(path("state.db-wal")));
  return stats;
}

}  // namespace shoal::coordinator
