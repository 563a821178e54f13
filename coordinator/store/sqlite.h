// A thin owner of sqlite3 handles: open with the house settings, prepare, bind, step, and every
// failure as an Error with a closed code and a remedy. It knows no table. Not thread-safe: one
// connection and its statements belong to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace shoal::coordinator {

// Bind indices start at 1, column indices at 0, as in SQLite.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* handle) : handle_(handle) {}
  ~Statement();
  Statement(Statement&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Statement& operator=(Statement&&) = delete;

  void bind(int index, std::int64_t value);
  void bind(int index, double value);            // NULL when not a number
  void bind(int index, std::string_view value);  // copied

  Result<bool> step();  // true: there is a row
  Status run();         // steps to the end, then resets
  void reset();         // also forgets the bound values

  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;            // NaN for NULL
  std::string_view text(int column) const;  // valid until the next step or reset

 private:
  sqlite3_stmt* handle_;
};

enum class OpenMode { kReadWrite, kReadOnly };
enum class Durability { kFull, kNormal };  // PRAGMA synchronous; matters to the writer only

class Database {
 public:
  static Result<std::unique_ptr<Database>> open(const std::string& path, OpenMode mode,
                                                Durability durability);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Status exec(const std::string& sql);  // any number of statements, no results
  Result<Statement> prepare(std::string_view sql);
  // Prepared once per text and kept; the returned statement was reset. Owned by the database.
  Result<Statement*> cached(const std::string& sql);

  Result<std::int64_t> integer(const std::string& sql);  // the first column of the only row

  // What SQLite finds wrong with the file, in a line; empty: nothing. Reads all of it,
  // `with_indexes` also compares every index with its table, which takes three times as long.
  // Values that look like values are not doubted: the file has no checksums.
  Result<std::string> damage(bool with_indexes);

  // All of it as of now into a new file, without a write-ahead log, however much is written
  // meanwhile.
  Status copy_to(const std::string& path);

  // A statement that runs longer than this is interrupted with kDeadlineExceeded; a long read would
  // keep the write-ahead log from being reset. Counts from the last cached() call.
  void set_query_limit_ms(std::int64_t limit) { query_limit_ms_ = limit; }

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  Status configure(OpenMode mode, Durability durability);
  static int on_progress(void* self);

  sqlite3* handle_;
  std::map<std::string, Statement, std::less<>> statements_;
  std::int64_t query_limit_ms_ = 0;  // 0: none
  std::int64_t query_started_ms_ = 0;
};

}  // namespace shoal::coordinator
