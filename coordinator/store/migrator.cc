#include "coordinator/store/migrator.h"

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/sha256.h"

namespace shoal::coordinator {
namespace {

constexpr std::int64_t kApplicationId = 0x53484f4c;  // "SHOL", PRAGMA application_id

constexpr const char* kTable =
    "CREATE TABLE IF NOT EXISTS schema_migrations ("
    "  version INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL,"
    "  applied_at_ms INTEGER NOT NULL, duration_ms INTEGER NOT NULL) STRICT;";

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Error incompatible(std::string message, std::string remedy) {
  return {.code = Code::kIncompatible,
          .message = std::move(message),
          .field = "state.db",
          .remedy = std::move(remedy)};
}

// 0 for a fresh, empty file.
Result<std::int64_t> stored_version(Database& database) {
  const auto tables = database.integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return tables.error();
  const auto id = database.integer("PRAGMA application_id");
  if (!id) return id.error();
  if (*tables > 0 && *id != kApplicationId) {
    return incompatible("the file is an SQLite database, but not one of Shoal",
                        "choose another --data-dir");
  }
  return database.integer("PRAGMA user_version");
}

Status refuse_drift(Database& database, std::span<const Migration> migrations,
                    std::int64_t version) {
  for (const Migration& migration : migrations) {
    if (migration.version > version) break;
    auto statement = database.prepare("SELECT sha256 FROM schema_migrations WHERE version = ?1");
    if (!statement) return statement.error();
    statement->bind(1, std::int64_t{migration.version});
    const auto row = statement->step();
    if (!row) return row.error();
    if (*row && statement->text(0) == sha256_of(migration.sql)) continue;
    return incompatible(
        "migration " + std::to_string(migration.version) + " (" + migration.name +
            ") was applied in another form than this binary has",
        "run the binary that made the folder; applied migrations must not be edited");
  }
  return {};
}

Status back_up(Database& database, const std::string& prefix, int version) {
  char number[16];
  std::snprintf(number, sizeof(number), "-%04d.db", version);
  const std::string path = prefix + number;
  std::error_code ignored;  // left over from an attempt that failed; VACUUM INTO wants a new file
  std::filesystem::remove(path, ignored);
  auto statement = database.prepare("VACUUM INTO ?1");
  if (!statement) return statement.error();
  statement->bind(1, path);
  return statement->run();
}

Status apply_in_transaction(Database& database, const Migration& migration) {
  const std::int64_t started = unix_ms();
  if (Status s = database.exec(kTable); !s.ok()) return s;
  if (Status s = database.exec(migration.sql); !s.ok()) return s;
  auto row = database.prepare("INSERT INTO schema_migrations VALUES (?1, ?2, ?3, ?4, ?5)");
  if (!row) return row.error();
  row->bind(1, std::int64_t{migration.version});
  row->bind(2, std::string_view(migration.name));
  row->bind(3, std::string_view(sha256_of(migration.sql)));
  row->bind(4, started);
  row->bind(5, unix_ms() - started);
  if (Status s = row->run(); !s.ok()) return s;
  const auto broken = database.integer("SELECT count(*) FROM pragma_foreign_key_check");
  if (!broken) return broken.error();
  if (*broken > 0) {
    return Error{.code = Code::kDataLoss, .message = "the migration leaves broken references"};
  }
  return database.exec("PRAGMA application_id=" + std::to_string(kApplicationId) +
                       "; PRAGMA user_version=" + std::to_string(migration.version));
}

Status apply(Database& database, const Migration& migration) {
  // Foreign keys cannot be switched inside a transaction; a table rebuild needs them off.
  if (Status s = database.exec("PRAGMA foreign_keys=OFF; BEGIN IMMEDIATE"); !s.ok()) return s;
  Status applied = apply_in_transaction(database, migration);
  if (applied.ok()) applied = database.exec("COMMIT");
  if (!applied.ok()) {
    (void)database.exec("ROLLBACK");  // the error to report is the first one
    Error error = applied.error();
    error.message = "migration " + std::to_string(migration.version) + " (" + migration.name +
                    ") failed and was undone: " + error.message;
    return error;
  }
  return database.exec("PRAGMA foreign_keys=ON");
}

}  // namespace

Result<std::int64_t> known_version(Database& database, std::span<const Migration> migrations) {
  const auto version = stored_version(database);
  if (!version) return version.error();
  const int newest = migrations.empty() ? 0 : migrations.back().version;
  if (*version > newest) {
    return incompatible("the folder has schema version " + std::to_string(*version) +
                            ", this binary knows versions up to " + std::to_string(newest),
                        "start the newer shoal-coordinator, or choose another --data-dir");
  }
  if (Status s = refuse_drift(database, migrations, *version); !s.ok()) return s.error();
  return version;
}

Status migrate(Database& database, std::span<const Migration> migrations,
               const std::string& backup_prefix) {
  const auto version = known_version(database, migrations);
  if (!version) return version.error();
  bool backed_up = false;
  for (const Migration& migration : migrations) {
    if (migration.version <= *version) continue;
    if (*version > 0 && !backed_up) {
      if (Status s = back_up(database, backup_prefix, migration.version); !s.ok()) return s;
      backed_up = true;
    }
    if (Status s = apply(database, migration); !s.ok()) return s;
  }
  return {};
}

}  // namespace shoal::coordinator
