// Records to rows and back, by walking the lists of columns.h.
//
// Plain values map by type: numbers, ids and units to INTEGER, doubles to REAL (not a number:
// NULL), enums to their word, digests to hex, instants to Unix nanoseconds, lists to JSON
// (json_fields.h).
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "coordinator/store/columns.h"
#include "coordinator/store/json_fields.h"
#include "coordinator/store/sqlite.h"

namespace shoal::coordinator {

// ---- one value

template <typename T>
concept Counted = requires(T t) {
  t.n;
};  // ids, incarnations, units

template <typename T>
void bind_value(Statement& statement, int index, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    statement.bind(index, std::string_view(to_string(value)));
  } else if constexpr (std::is_integral_v<T>) {
    statement.bind(index, static_cast<std::int64_t>(value));
  } else if constexpr (std::is_same_v<T, double>) {
    statement.bind(index, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    statement.bind(index, std::string_view(value));
  } else if constexpr (std::is_same_v<T, Instant> || std::is_same_v<T, Duration>) {
    statement.bind(index, value.ns);
  } else if constexpr (std::is_same_v<T, Digest>) {
    statement.bind(index, std::string_view(value ? to_hex(value) : std::string()));
  } else if constexpr (Counted<T>) {
    statement.bind(index, static_cast<std::int64_t>(value.n));
  } else {
    statement.bind(index, std::string_view(to_json(value)));
  }
}

template <typename T>
Status read_value(const Statement& row, int column, T& value) {
  const auto unreadable = [&](std::string_view what) {
    return Error{
        .code = Code::kDataLoss,
        .message = "not a stored " + std::string(what) + ": " + std::string(row.text(column)),
        .remedy = "restore state.db from a backup (docs/store.md)"};
  };
  if constexpr (std::is_enum_v<T>) {
    const auto word = parse_word<T>(row.text(column));
    if (!word) return unreadable("word");
    value = *word;
  } else if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(row.integer(column));
  } else if constexpr (std::is_same_v<T, double>) {
    value = row.real(column);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = row.text(column);
  } else if constexpr (std::is_same_v<T, Instant> || std::is_same_v<T, Duration>) {
    value.ns = row.integer(column);
  } else if constexpr (std::is_same_v<T, Digest>) {
    const std::string_view text = row.text(column);
    const auto digest = text.empty() ? std::optional(Digest{}) : parse_digest(text);
    if (!digest) return unreadable("digest");
    value = *digest;
  } else if constexpr (Counted<T>) {
    value.n = static_cast<decltype(value.n)>(row.integer(column));
  } else {
    return from_json(row.text(column), value);
  }
  return {};
}

// ---- whole records

struct NameVisitor {
  std::vector<std::string> names;
  template <typename T>
  void operator()(std::string name, const T&) {
    names.push_back(std::move(name));
  }
};

struct BindVisitor {
  Statement& statement;
  int index = 0;
  template <typename T>
  void operator()(std::string_view, const T& value) {
    bind_value(statement, ++index, value);
  }
};

struct ReadVisitor {
  const Statement& row;
  int column = 0;
  Status status;
  template <typename T>
  void operator()(std::string_view name, T& value) {
    if (!status.ok()) return;
    status = read_value(row, column++, value);
    if (status.ok()) return;
    Error error = status.error();
    error.field = name;
    status = error;
  }
};

template <typename R>
std::vector<std::string> column_names() {
  NameVisitor visitor;
  const R record{};
  Table<R>::columns(visitor, record);
  return visitor.names;
}

// "SELECT id, spec, … FROM jobs AS t" with every column as t.name; a WHERE clause may follow.
template <typename R>
std::string select_sql() {
  std::string list;
  for (const std::string& name : column_names<R>()) list += (list.empty() ? "t." : ", t.") + name;
  return "SELECT " + list + " FROM " + Table<R>::kTable + " AS t ";
}

// INSERT, which replaces the other columns where the key is already there.
template <typename R>
std::string upsert_sql() {
  std::string names, marks, updates;
  int index = 0;
  for (const std::string& name : column_names<R>()) {
    const char* comma = index == 0 ? "" : ", ";
    names += comma + name;
    marks += std::string(comma) + "?" + std::to_string(++index);
    updates += comma + name + " = excluded." + name;
  }
  std::string key = Table<R>::kKey;
  if constexpr (std::is_same_v<R, CounterRecord>) {  // its only row
    names = "id, " + names;
    marks = "1, " + marks;
  }
  std::string sql =
      std::string("INSERT INTO ") + Table<R>::kTable + " (" + names + ") VALUES (" + marks + ")";
  if (!key.empty()) sql += " ON CONFLICT (" + key + ") DO UPDATE SET " + updates;
  return sql;
}

template <typename R>
Status write_record(Database& database, const R& record) {
  static const std::string kSql = upsert_sql<R>();
  const Result<Statement*> statement = database.cached(kSql);
  if (!statement) return statement.error();
  BindVisitor bind{**statement};
  Table<R>::columns(bind, record);
  return (*statement)->run();
}

template <typename R>
Result<R> read_record(const Statement& row) {
  R record;
  ReadVisitor read{row, 0, {}};
  Table<R>::columns(read, record);
  if (read.status.ok()) return record;
  Error error = read.status.error();
  error.field = std::string("state.db, ") + Table<R>::kTable + "." + error.field;
  return error;
}

// All rows of a statement whose parameters were bound.
template <typename R>
Result<std::vector<R>> read_all(Statement& statement) {
  std::vector<R> records;
  for (;;) {
    const Result<bool> row = statement.step();
    if (!row) return row.error();
    if (!*row) break;
    Result<R> record = read_record<R>(statement);
    if (!record) return record.error();
    records.push_back(std::move(record).value());
  }
  statement.reset();
  return records;
}

}  // namespace shoal::coordinator
