// Brings state.db to the schema of this binary. Migrations are numbered SQL files (migrations/),
// embedded at build time, forward-only, each in one transaction. Before an existing database is
// changed a copy state.pre-NNNN.db is written beside it. What was applied is kept with its SHA-256,
// so an edited migration is found before it does harm.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "coordinator/store/sqlite.h"

namespace shoal::coordinator {

struct Migration {
  int version = 0;  // 1, 2, 3 … without gaps
  const char* name = "";
  const char* sql = "";
};

std::span<const Migration> embedded_migrations();

// That of the file, 0 where it is empty; changes nothing. kIncompatible: the file is newer than the
// binary, is no Shoal database, or an applied migration was edited since.
Result<std::int64_t> known_version(Database& database, std::span<const Migration> migrations);

// `backup_prefix` is the path of the backup without "-NNNN.db" ("…/state.pre"). kIncompatible: as
// known_version().
Status migrate(Database& database, std::span<const Migration> migrations,
               const std::string& backup_prefix);

}  // namespace shoal::coordinator
