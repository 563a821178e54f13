// The SQLite engine behind reader.h: read-only connections, one per reader, with a one-second limit
// per query so that no reader keeps the write-ahead log from being reset. A connection that could
// not be opened answers every question with its error.
#pragma once

#include <memory>
#include <string>

#include "coordinator/store/reader.h"

namespace shoal::coordinator {

class Database;

std::unique_ptr<Reader> open_sqlite_reader(const std::string& state_path,
                                           const std::string& telemetry_path);

// What Store::load() gives, read on `database`.
Result<Snapshot> read_snapshot(Database& database);

}  // namespace shoal::coordinator
