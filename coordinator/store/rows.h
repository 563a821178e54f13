// Records to rows and back. The columns follow from the list of fields beside each record; the
// tables are written by hand in migrations/, and a test compares the two.
//
// Plain values map by type: numbers, ids and units to INTEGER, doubles to REAL (not a number:
// NULL), enums to their word, digests to hex, times to nanoseconds, lists to JSON (json_fields.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/core/records/records.h"
#include "coordinator/store/file_rows.h"
#include "coordinator/store/machine_rows.h"
#include "coordinator/store/people_rows.h"
#include "coordinator/store/sqlite.h"

namespace shoal::coordinator {

struct Column {
  std::string name;
  std::string_view type;  // of SQLite
  bool operator==(const Column&) const = default;
};
struct Table {
  const char* name;
  const char* key;  // the columns that name a row; empty: rows are appended, never replaced
  std::vector<Column> columns;
};

std::vector<Table> all_tables();

// "SELECT t.id, t.spec, … FROM jobs AS t " with every column; a WHERE clause may follow.
template <typename R>
std::string select_sql();

// Replaces the row with the same key; a ForgottenAgent deletes those of the agent and its lines.
Status write_record(Database& database, const Record& record);
Status write_machine_row(Database& database, const MachineRow& row);
Status write_people_row(Database& database, const PeopleRow& row);
Status write_file_row(Database& database, const FileRow& row);

// All rows of a statement of select_sql() whose parameters were bound.
template <typename R>
Result<std::vector<R>> read_all(Statement& statement);

}  // namespace shoal::coordinator
