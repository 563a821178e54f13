#include "coordinator/store/telemetry.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

namespace shoal::coordinator {
namespace {

constexpr std::int64_t kSchemaVersion = 1;
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS series ("
    "  id INTEGER PRIMARY KEY, job INTEGER NOT NULL, name TEXT NOT NULL, replica INTEGER NOT NULL,"
    "  UNIQUE (job, name, replica)) STRICT;"
    "CREATE TABLE IF NOT EXISTS points ("
    "  series INTEGER NOT NULL, step INTEGER NOT NULL, round INTEGER NOT NULL, tokens INTEGER NOT "
    "NULL,"
    "  at_ns INTEGER NOT NULL, value REAL NOT NULL, PRIMARY KEY (series, step)) STRICT, WITHOUT "
    "ROWID;"
    "PRAGMA user_version = 1;"
    // 4 GiB; a full file refuses points, which the store counts as errors.
    "PRAGMA max_page_count = 1048576;";

Result<std::unique_ptr<Database>> open_current(const std::string& path) {
  auto database = Database::open(path, OpenMode::kReadWrite, Durability::kNormal);
  if (!database) return database;
  const auto version = (*database)->integer("PRAGMA user_version");
  if (!version) return version.error();
  if (*version != 0 && *version != kSchemaVersion) {
    return Error{.code = Code::kIncompatible, .message = "another version", .field = path};
  }
  if (Status s = (*database)->exec(kSchema); !s.ok()) return s.error();
  if (Status s = (*database)->exec(kDeviceTables); !s.ok()) return s.error();
  return database;
}

// Out of the way, where somebody may still look at it; the one before it goes.
void set_aside(const std::string& path) {
  std::error_code ignored;  // open() that follows reports what stays in the way
  std::filesystem::rename(path, path + kSetAsideSuffix, ignored);
  for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(path + suffix, ignored);
}

// The SQL expression of an x axis; the error names what is accepted.
Result<std::string> axis(const std::string& x) {
  if (x == "step" || x == "round" || x == "tokens") return "CAST(p." + x + " AS REAL)";
  if (x == "time") return std::string("p.at_ns * 1e-9");
  return Error{.code = Code::kValidation,
               .message = "no such axis: " + x,
               .field = "x",
               .remedy = "one of step, round, tokens, time"};
}

enum class Lines { kWholeJob, kMeanOfReplicas, kEach };

Result<Lines> choose_lines(Database& database, const SeriesQuery& query) {
  if (query.by_replica) return Lines::kEach;
  const auto statement =
      database.cached("SELECT 1 FROM series WHERE job = ?1 AND name = ?2 AND replica = 0");
  if (!statement) return statement.error();
  (*statement)->bind(1, static_cast<std::int64_t>(query.job.n));
  (*statement)->bind(2, std::string_view(query.name));
  const auto row = (*statement)->step();
  if (!row) return row.error();
  const bool whole = *row;
  (*statement)->reset();
  return whole ? Lines::kWholeJob : Lines::kMeanOfReplicas;
}

// ?1 job, ?2 name, ?3 from, ?4 to, ?5 buckets. Buckets divide [min x, max x] evenly; where there
// are fewer points than buckets, each point is its own, however close to the next one it is.
std::string series_sql(const std::string& x, Lines lines) {
  const std::string from =
      " series AS s JOIN points AS p ON p.series = s.id WHERE s.job = ?1 AND s.name = ?2" +
      std::string(lines == Lines::kWholeJob ? " AND s.replica = 0" : "") + " AND " + x +
      " BETWEEN ?3 AND ?4";
  const std::string line = lines == Lines::kEach ? "s.replica" : "0";
  const std::string count =
      lines == Lines::kMeanOfReplicas ? "?5 + 1" : "count(DISTINCT " + x + ")";
  return "WITH span AS (SELECT min(" + x + ") AS lo, max(" + x + ") AS hi, " + count +
         " AS count FROM" + from + ") SELECT " + line + " AS line, avg(" + x +
         "), avg(p.value), min(p.value), max(p.value), CASE WHEN span.count <= ?5 THEN " + x +
         " WHEN span.hi > span.lo THEN min(CAST((" + x +
         " - span.lo) * ?5 / (span.hi - span.lo) AS INTEGER), ?5 - 1) ELSE 0 END AS bucket, "
         "avg(p.at_ns * 1e-9) FROM span," +
         from + " GROUP BY line, bucket ORDER BY line, bucket";
}

}  // namespace

Result<std::unique_ptr<TelemetryWriter>> TelemetryWriter::open(const std::string& path) {
  auto database = open_current(path);
  if (!database &&
      (database.error().code == Code::kIncompatible || database.error().code == Code::kDataLoss)) {
    set_aside(path);
    database = open_current(path);
  }
  if (!database) return database.error();
  return std::unique_ptr<TelemetryWriter>(new TelemetryWriter(std::move(database).value()));
}

Result<std::int64_t> TelemetryWriter::series_id(const SeriesPoint& point) {
  auto& id = ids_[{point.job.n, point.name, point.replica.n}];
  if (id != 0) return id;
  const auto statement = database_->cached(
      "INSERT INTO series (job, name, replica) VALUES (?1, ?2, ?3)"
      " ON CONFLICT DO UPDATE SET name = excluded.name RETURNING id");
  if (!statement) return statement.error();
  (*statement)->bind(1, static_cast<std::int64_t>(point.job.n));
  (*statement)->bind(2, std::string_view(point.name));
  (*statement)->bind(3, static_cast<std::int64_t>(point.replica.n));
  const auto row = (*statement)->step();
  if (!row) return row.error();
  id = (*statement)->integer(0);
  (*statement)->reset();
  return id;
}

Status TelemetryWriter::append_in_transaction(const std::vector<SeriesPoint>& points) {
  for (const SeriesPoint& point : points) {
    if (!std::isfinite(point.value)) continue;
    const auto id = series_id(point);
    if (!id) return id.error();
    const auto statement =
        database_->cached("INSERT OR REPLACE INTO points VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
    if (!statement) return statement.error();
    (*statement)->bind(1, *id);
    (*statement)->bind(2, point.step);
    (*statement)->bind(3, point.round);
    (*statement)->bind(4, point.tokens.n);
    (*statement)->bind(5, point.at.ns);
    (*statement)->bind(6, point.value);
    if (Status s = (*statement)->run(); !s.ok()) return s;
  }
  return {};
}

Status TelemetryWriter::append(const std::vector<SeriesPoint>& points) {
  if (Status s = database_->exec("BEGIN IMMEDIATE"); !s.ok()) return s;
  Status status = append_in_transaction(points);
  if (status.ok()) status = database_->exec("COMMIT");
  if (!status.ok()) {
    (void)database_->exec("ROLLBACK");
    ids_.clear();  // series made in this transaction are gone
  }
  return status;
}

Status TelemetryWriter::forget_after(JobId job, RoundNumber round) {
  const auto statement = database_->cached(
      "DELETE FROM points WHERE series IN (SELECT id FROM series WHERE job = ?1) AND round > ?2");
  if (!statement) return statement.error();
  (*statement)->bind(1, static_cast<std::int64_t>(job.n));
  (*statement)->bind(2, round);
  return (*statement)->run();
}

Status TelemetryWriter::append(const DeviceLog& log) {
  if (Status s = database_->exec("BEGIN IMMEDIATE"); !s.ok()) return s;
  Status status = write_devices(*database_, log);
  if (status.ok()) status = database_->exec("COMMIT");
  if (!status.ok()) (void)database_->exec("ROLLBACK");  // the error to report is the first one
  return status;
}

Status TelemetryWriter::forget(AgentId agent) { return forget_devices(*database_, agent); }

Result<std::int64_t> TelemetryWriter::job_after(std::int64_t job) {
  const auto statement =
      database_->cached("SELECT coalesce((SELECT min(job) FROM series WHERE job > ?1), 0)");
  if (!statement) return statement.error();
  (*statement)->bind(1, job);
  const auto row = (*statement)->step();
  if (!row) return row.error();
  const std::int64_t next = (*statement)->integer(0);
  (*statement)->reset();
  return next;
}

Result<bool> TelemetryWriter::forget_some(std::int64_t job, int rows) {
  const auto points = database_->cached(
      "DELETE FROM points WHERE (series, step) IN (SELECT p.series, p.step FROM series AS s"
      " JOIN points AS p ON p.series = s.id WHERE s.job = ?1 LIMIT ?2)");
  if (!points) return points.error();
  (*points)->bind(1, job);
  (*points)->bind(2, std::int64_t{rows});
  if (Status s = (*points)->run(); !s.ok()) return s.error();
  const auto gone = database_->integer("SELECT changes()");
  if (!gone) return gone.error();
  if (*gone > 0) return true;
  const auto series = database_->cached("DELETE FROM series WHERE job = ?1");
  if (!series) return series.error();
  (*series)->bind(1, job);
  if (Status s = (*series)->run(); !s.ok()) return s.error();
  std::erase_if(ids_, [&](const auto& known) {
    return std::get<0>(known.first) == static_cast<std::uint64_t>(job);
  });
  return false;
}

Result<bool> TelemetryWriter::thin_some(std::vector<std::int64_t>& after, std::int64_t cut,
                                        int rows) {
  const auto behind = database_->cached(
      "SELECT series, step FROM points WHERE (series, step) > (?1, ?2) ORDER BY series, step"
      " LIMIT 1 OFFSET ?3");
  if (!behind) return behind.error();
  (*behind)->bind(1, after.at(0));
  (*behind)->bind(2, after.at(1));
  (*behind)->bind(3, std::int64_t{rows - 1});
  const auto row = (*behind)->step();
  if (!row) return row.error();
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> last = {kLast, kLast};
  if (*row) last = {(*behind)->integer(0), (*behind)->integer(1)};
  (*behind)->reset();
  const auto thin = database_->cached(
      "DELETE FROM points AS p WHERE (p.series, p.step) > (?1, ?2) AND (p.series, p.step) <= (?3, "
      "?4)"
      " AND p.at_ns < ?5 AND p.round / 10 = (SELECT q.round / 10 FROM points AS q"
      " WHERE q.series = p.series AND q.step < p.step ORDER BY q.step DESC LIMIT 1)");
  if (!thin) return thin.error();
  int index = 0;
  for (const std::int64_t value : {after[0], after[1], last[0], last[1], cut}) {
    (*thin)->bind(++index, value);
  }
  if (Status s = (*thin)->run(); !s.ok()) return s.error();
  after = last;
  return *row;
}

Result<std::vector<SeriesNewest>> read_series_of(Database& database, JobId job) {
  const auto statement = database.cached(
      "SELECT s.name, p.step, p.value FROM series AS s LEFT JOIN points AS p ON p.series = s.id"
      " AND p.step = (SELECT max(step) FROM points WHERE series = s.id)"
      " WHERE s.job = ?1 ORDER BY s.name, p.step, p.at_ns");
  if (!statement) return statement.error();
  (*statement)->bind(1, static_cast<std::int64_t>(job.n));
  std::vector<SeriesNewest> found;
  for (;;) {
    const auto row = (*statement)->step();
    if (!row) return row.error();
    if (!*row) break;
    const std::string name((*statement)->text(0));
    if (found.empty() || found.back().name != name) found.push_back({name, std::nullopt});
    if ((*statement)->is_null(1)) continue;
    found.back().newest = {(*statement)->integer(1),
                           (*statement)->real(2)};  // the last row's stays
  }
  (*statement)->reset();
  return found;
}

Result<std::vector<SeriesLine>> read_series(Database& database, const SeriesQuery& query) {
  if (query.max_points < 1 || query.max_points > 10'000) {
    return Error{.code = Code::kValidation,
                 .message = "must be 1 to 10000, got " + std::to_string(query.max_points),
                 .field = "max_points"};
  }
  const auto x = axis(query.x);
  if (!x) return x.error();
  const auto lines = choose_lines(database, query);
  if (!lines) return lines.error();
  const auto statement = database.cached(series_sql(*x, *lines));
  if (!statement) return statement.error();
  Statement& rows = **statement;
  rows.bind(1, static_cast<std::int64_t>(query.job.n));
  rows.bind(2, std::string_view(query.name));
  rows.bind(3, query.from.value_or(-1e300));
  rows.bind(4, query.to.value_or(1e300));
  rows.bind(5, std::int64_t{query.max_points});
  std::vector<SeriesLine> result;
  for (;;) {
    const auto row = rows.step();
    if (!row) return row.error();
    if (!*row) break;
    const ReplicaId replica(static_cast<std::uint64_t>(rows.integer(0)));
    if (result.empty() || result.back().replica != replica) result.push_back({.replica = replica});
    SeriesLine& line = result.back();
    line.x.push_back(rows.real(1));
    line.y.push_back(rows.real(2));
    line.y_min.push_back(rows.real(3));
    line.y_max.push_back(rows.real(4));
    line.time.push_back(rows.real(6));
  }
  rows.reset();
  return result;
}

}  // namespace shoal::coordinator
