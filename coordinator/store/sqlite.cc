#include "coordinator/store/sqlite.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <sqlite3.h>

#include "threads/clock.h"

namespace shoal::coordinator {
namespace {

std::int64_t steady_ms() { return steady_now().ns / 1'000'000; }

struct Mapped {
  Code code;
  const char* remedy;
};

Mapped map_code(int primary) {
  switch (primary) {
    case SQLITE_FULL:
      return {Code::kResourceExhausted, "free space on the disk and start again"};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {Code::kDataLoss, "restore the file from a backup (docs/backup.md)"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Code::kUnavailable, "close other programs that write this file"};
    case SQLITE_INTERRUPT:
      return {Code::kDeadlineExceeded, "ask for fewer rows"};
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
      return {Code::kPermissionDenied, "check owner and permissions of the folder"};
    case SQLITE_IOERR:
      return {Code::kUnavailable, "check the disk; the system log says more"};
    default:
      return {Code::kInternal, ""};
  }
}

// SQLite calls a full disk an I/O error where it is not a page of the file that did not fit.
bool is_disk_full(const char* path) {
  constexpr std::uintmax_t kNextToNothing = 64 * 1024;
  std::error_code failure;
  const auto space =
      std::filesystem::space(std::filesystem::path(path).parent_path().string(), failure);
  return !failure && space.available < kNextToNothing;
}

Error error_of(sqlite3* handle) {
  const char* path = sqlite3_db_filename(handle, "main");
  int primary = sqlite3_errcode(handle) & 0xff;
  if (primary == SQLITE_IOERR && path != nullptr && is_disk_full(path)) primary = SQLITE_FULL;
  const Mapped mapped = map_code(primary);
  return {.code = mapped.code,
          .message = std::string(sqlite3_errmsg(handle)) + " (SQLite code " +
                     std::to_string(sqlite3_extended_errcode(handle)) + ")",
          .field = path != nullptr ? path : "",
          .remedy = mapped.remedy};
}

}  // namespace

Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::bind(int index, std::int64_t value) { sqlite3_bind_int64(handle_, index, value); }
void Statement::bind(int index, double value) { sqlite3_bind_double(handle_, index, value); }
void Statement::bind(int index, std::string_view value) {
  // A null pointer would bind NULL.
  sqlite3_bind_text64(handle_, index, value.data() != nullptr ? value.data() : "", value.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
}

Result<bool> Statement::step() {
  switch (sqlite3_step(handle_)) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default: {
      Error error = error_of(sqlite3_db_handle(handle_));
      sqlite3_reset(handle_);
      return error;
    }
  }
}

Status Statement::run() {
  for (;;) {
    const Result<bool> row = step();
    if (!row) return row.error();
    if (!*row) break;
  }
  reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}
std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }
double Statement::real(int column) const {
  if (is_null(column)) return std::numeric_limits<double>::quiet_NaN();
  return sqlite3_column_double(handle_, column);
}
std::string_view Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path, OpenMode mode,
                                                 Durability durability) {
  std::error_code unseen;  // then SQLite says what is wrong
  const auto kind = std::filesystem::status(path, unseen).type();
  if (kind == std::filesystem::file_type::directory) {
    return Error{Code::kDataLoss, "is a folder, not a database", path,
                 "move it away, and restore the file from a backup (docs/backup.md)"};
  }
  const int flags = (mode == OpenMode::kReadOnly ? SQLITE_OPEN_READONLY
                                                 : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  std::unique_ptr<Database> database(new Database(handle));
  if (code != SQLITE_OK) {
    Error error = error_of(handle);
    error.field = path;
    return error;
  }
  // SQLite opens a file that cannot be written for reading, and would say so at the first commit.
  if (mode == OpenMode::kReadWrite && sqlite3_db_readonly(handle, "main") == 1) {
    return Error{Code::kPermissionDenied, "the file cannot be written", path,
                 "check its owner and permissions, and that its disk is not read-only"};
  }
  if (Status status = database->configure(mode, durability); !status.ok()) {
    Error error = status.error();
    error.field = path;
    return error;
  }
  return database;
}

Status Database::configure(OpenMode mode, Durability durability) {
  // trusted_schema stays on: with it off, SQLite 3.40 refuses json_valid() in a CHECK, and this
  // program registers no function that a foreign schema could misuse.
  std::string sql =
      "PRAGMA busy_timeout=5000; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY;"
      "PRAGMA mmap_size=0; PRAGMA cell_size_check=ON;";
  if (mode == OpenMode::kReadWrite) {
    sql +=
        "PRAGMA journal_mode=WAL; PRAGMA journal_size_limit=67108864; PRAGMA "
        "wal_autocheckpoint=1000;";
    sql +=
        durability == Durability::kFull ? "PRAGMA synchronous=FULL;" : "PRAGMA synchronous=NORMAL;";
  } else {
    sql += "PRAGMA cache_size=-512;";
    sqlite3_progress_handler(handle_, 10'000, &Database::on_progress, this);
  }
  return exec(sql);
}

Result<std::string> Database::damage(bool with_indexes) {
  auto check = prepare(with_indexes ? "PRAGMA integrity_check(1)" : "PRAGMA quick_check(1)");
  if (!check) return check.error();
  query_started_ms_ = steady_ms();
  const auto row = check->step();
  if (!row) return row.error();
  std::string found(*row ? check->text(0) : "no answer");
  constexpr std::string_view kHead = "*** in database main ***\n";
  if (found.starts_with(kHead)) found.erase(0, kHead.size());
  std::replace(found.begin(), found.end(), '\n', ' ');
  return found == "ok" ? std::string() : found;
}

Status Database::copy_to(const std::string& path) {
  // The open read keeps the copy from starting over at each commit of the writer.
  if (Status begun = exec("BEGIN; SELECT count(*) FROM sqlite_master"); !begun.ok()) return begun;
  sqlite3* target = nullptr;
  Status copied;
  if (sqlite3_open(path.c_str(), &target) != SQLITE_OK) {
    copied = error_of(target);
  } else if (sqlite3_backup* backup = sqlite3_backup_init(target, "main", handle_, "main")) {
    sqlite3_backup_step(backup, -1);
    if (sqlite3_backup_finish(backup) != SQLITE_OK) copied = error_of(target);
  } else {
    copied = error_of(target);
  }
  const char* plain = "PRAGMA journal_mode=DELETE";
  if (copied.ok() && sqlite3_exec(target, plain, nullptr, nullptr, nullptr) != SQLITE_OK) {
    copied = error_of(target);
  }
  sqlite3_close(target);
  if (Status ended = exec("COMMIT"); !ended.ok() && copied.ok()) return ended;
  return copied;
}

Database::~Database() {
  statements_.clear();
  sqlite3_close(handle_);
}

int Database::on_progress(void* self) {
  const auto* database = static_cast<const Database*>(self);
  return database->query_limit_ms_ > 0 &&
         steady_ms() - database->query_started_ms_ > database->query_limit_ms_;
}

Status Database::exec(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return error_of(handle_);
  }
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) {
    Error error = error_of(handle_);
    error.message += " in: " + std::string(sql);
    return error;
  }
  return Statement(statement);
}

Result<Statement*> Database::cached(const std::string& sql) {
  query_started_ms_ = steady_ms();
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    Result<Statement> statement = prepare(sql);
    if (!statement) return statement.error();
    it = statements_.emplace(sql, std::move(statement).value()).first;
  }
  it->second.reset();
  return &it->second;
}

Result<std::int64_t> Database::integer(const std::string& sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return statement.error();
  const Result<bool> row = statement->step();
  if (!row) return row.error();
  return *row ? statement->integer(0) : std::int64_t{0};
}

}  // namespace shoal::coordinator
