#include "coordinator/store/space.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "coordinator/store/sqlite.h"

namespace shoal::coordinator {
namespace {

using Counts = std::map<std::int64_t, std::int64_t>;  // rows by job

constexpr std::int64_t kLimitMs = 10'000;  // of one question

// Bytes of each table with its indexes.
Result<std::map<std::string, std::int64_t>> table_bytes(Database& database) {
  const auto statement = database.cached(
      "SELECT m.tbl_name, sum(d.pgsize) FROM dbstat AS d JOIN sqlite_schema AS m ON m.name = d.name"
      " WHERE d.aggregate = TRUE GROUP BY m.tbl_name");
  if (!statement) return statement.error();
  std::map<std::string, std::int64_t> bytes;
  for (;;) {
    const auto row = (*statement)->step();
    if (!row) return row.error();
    if (!*row) break;
    bytes.emplace((*statement)->text(0), (*statement)->integer(1));
  }
  (*statement)->reset();
  return bytes;
}

// `sql` gives a job and a number of rows.
Result<Counts> counts_of(Database& database, const std::string& sql) {
  const auto statement = database.cached(sql);
  if (!statement) return statement.error();
  Counts counts;
  for (;;) {
    const auto row = (*statement)->step();
    if (!row) return row.error();
    if (!*row) break;
    counts[(*statement)->integer(0)] = (*statement)->integer(1);
  }
  (*statement)->reset();
  return counts;
}

std::int64_t sum_of(const Counts& counts) {
  std::int64_t sum = 0;
  for (const auto& [job, rows] : counts) sum += rows;
  return sum;
}

// Rows of no job (0) are nobody's.
void share_out(const Counts& counts, std::int64_t bytes, FlatMap<JobId, Bytes>& by_job) {
  const std::int64_t rows = std::max<std::int64_t>(1, sum_of(counts));
  for (const auto& [job, count] : counts) {
    if (job <= 0) continue;
    by_job[JobId(static_cast<std::uint64_t>(job))] += Bytes(static_cast<std::int64_t>(
        static_cast<double>(bytes) * static_cast<double>(count) / static_cast<double>(rows)));
  }
}

Result<std::int64_t> rows_of(Database& database, const std::string& table) {
  return database.integer("SELECT count(*) FROM " + table);
}

Status read_tables(Database& state, DatabaseSpace& space) {
  const auto bytes = table_bytes(state);
  if (!bytes) return bytes.error();
  for (const auto& [name, size] : *bytes) {
    const auto rows = rows_of(state, name);
    if (!rows) return rows.error();
    space.tables.push_back({name, *rows, Bytes(size)});
  }
  std::ranges::stable_sort(space.tables, std::greater<>(), &TableSpace::bytes);
  for (const char* table : {"rounds", "contributions", "replicas", "events"}) {
    const auto counts =
        counts_of(state, std::string("SELECT job, count(*) FROM ") + table + " GROUP BY job");
    if (!counts) return counts.error();
    const auto size = bytes->find(table);
    if (size != bytes->end()) share_out(*counts, size->second, space.history);
  }
  return {};
}

Status read_series(Database& telemetry, DatabaseSpace& space) {
  const auto bytes = table_bytes(telemetry);
  if (!bytes) return bytes.error();
  const auto points = counts_of(telemetry,
                                "SELECT s.job, count(*) FROM series AS s JOIN points AS p"
                                " ON p.series = s.id GROUP BY s.job");
  if (!points) return points.error();
  const auto size = bytes->find("points");
  if (size != bytes->end()) share_out(*points, size->second, space.series);
  return {};
}

Result<std::unique_ptr<Database>> open_to_read(const std::string& path) {
  auto database = Database::open(path, OpenMode::kReadOnly, Durability::kNormal);
  if (database) (*database)->set_query_limit_ms(kLimitMs);
  return database;
}

}  // namespace

Result<DatabaseSpace> read_space(const std::string& folder) {
  auto state = open_to_read(folder + "/state.db");
  if (!state) return state.error();
  auto telemetry = open_to_read(folder + "/telemetry.db");
  if (!telemetry) return telemetry.error();
  DatabaseSpace space;
  if (Status s = read_tables(**state, space); !s.ok()) return s.error();
  if (Status s = read_series(**telemetry, space); !s.ok()) return s.error();
  return space;
}

}  // namespace shoal::coordinator
