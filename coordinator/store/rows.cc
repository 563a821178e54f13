#include "coordinator/store/rows.h"

#include <optional>
#include <type_traits>

#include "coordinator/store/json_fields.h"

namespace shoal::coordinator {
namespace {

struct TableName {
  const char* name;
  const char* key;
};
constexpr TableName name_of(Of<CounterRecord>) { return {"counters", "id"}; }
constexpr TableName name_of(Of<JobRecord>) { return {"jobs", "id"}; }
constexpr TableName name_of(Of<AgentRecord>) { return {"agents", "id"}; }
constexpr TableName name_of(Of<ReplicaRecord>) { return {"replicas", "id"}; }
constexpr TableName name_of(Of<RoundRecord>) { return {"rounds", "job, epoch, round"}; }
constexpr TableName name_of(Of<ContributionRecord>) {
  return {"contributions", "job, epoch, round, replica"};
}
constexpr TableName name_of(Of<CheckpointRecord>) { return {"checkpoints", "id"}; }
constexpr TableName name_of(Of<EventRecord>) { return {"events", ""}; }
constexpr TableName name_of(Of<SubmittedText>) { return {"submitted_texts", "job"}; }
constexpr TableName name_of(Of<LinkRecord>) { return {"links", "from_agent, to_agent"}; }
constexpr TableName name_of(Of<AuthorityRecord>) { return {"authorities", "fingerprint"}; }
constexpr TableName name_of(Of<identity::JoinTokenRecord>) { return {"join_tokens", "id"}; }
constexpr TableName name_of(Of<MachineRecord>) { return {"machines", "id"}; }
constexpr TableName name_of(Of<identity::ApiTokenRecord>) { return {"api_tokens", "id"}; }
constexpr TableName name_of(Of<SessionRecord>) { return {"sessions", "id"}; }
constexpr TableName name_of(Of<AuditRecord>) { return {"audit", "seq"}; }
constexpr TableName name_of(Of<FileRecord>) { return {"files", "sha256"}; }
constexpr TableName name_of(Of<DatasetRecord>) { return {"datasets", "name"}; }

// ---- one value

template <typename T>
constexpr bool is_whole() {  // in one INTEGER
  return std::is_integral_v<T> || Time<T> || Counted<T>;
}

template <typename T>
constexpr const char* type_of() {
  if constexpr (is_whole<T>()) {
    return "INTEGER";
  } else {
    return std::is_same_v<T, double> ? "REAL" : "TEXT";
  }
}

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
  } else if constexpr (Time<T>) {
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
        .remedy = "restore state.db from a backup (docs/backup.md)"};
  };
  if constexpr (std::is_enum_v<T>) {
    const auto word = parse_enumerator<T>(row.text(column));
    if (!word) return unreadable("word");
    value = *word;
  } else if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(row.integer(column));
  } else if constexpr (std::is_same_v<T, double>) {
    value = row.real(column);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = row.text(column);
  } else if constexpr (Time<T>) {
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

template <typename R>
Table make_table() {
  constexpr TableName kName = name_of(Of<R>{});
  Table table{kName.name, kName.key, {}};
  const R record{};
  for_each_stored(record, [&](const StoredField& field, const auto& member) {
    table.columns.push_back({field.name, type_of<std::remove_cvref_t<decltype(member)>>()});
  });
  return table;
}

template <typename R>
const Table& table_of() {
  static const Table kTable = make_table<R>();
  return kTable;
}

// INSERT, which replaces the other columns where the key is already there.
std::string upsert_sql(const Table& table, bool only_row) {
  std::string names = only_row ? "id" : "", marks = only_row ? "1" : "", updates;
  int index = 0;
  for (const Column& column : table.columns) {
    names += (names.empty() ? "" : ", ") + column.name;
    marks += (marks.empty() ? "?" : ", ?") + std::to_string(++index);
    updates += (updates.empty() ? "" : ", ") + column.name + " = excluded." + column.name;
  }
  std::string sql =
      std::string("INSERT INTO ") + table.name + " (" + names + ") VALUES (" + marks + ")";
  if (*table.key != '\0')
    sql += std::string(" ON CONFLICT (") + table.key + ") DO UPDATE SET " + updates;
  return sql;
}

template <typename R>
Status write_one(Database& database, const R& record) {
  static const std::string kSql =
      upsert_sql(table_of<R>(), std::is_same_v<R, CounterRecord>);  // its only row
  const Result<Statement*> statement = database.cached(kSql);
  if (!statement) return statement.error();
  int index = 0;
  for_each_stored(record, [&](const StoredField&, const auto& member) {
    bind_value(**statement, ++index, member);
  });
  return (*statement)->run();
}

template <typename R>
Result<R> read_one(const Statement& row) {
  R record;
  Status status;
  int column = 0;
  for_each_stored(record, [&](const StoredField& field, auto& member) {
    if (!status.ok()) return;
    status = read_value(row, column++, member);
    if (status.ok()) return;
    Error error = status.error();
    error.field = std::string("state.db, ") + table_of<R>().name + "." + field.name;
    status = error;
  });
  if (!status.ok()) return status.error();
  return record;
}

// The others take rows away and have none of their own.
template <typename R>
constexpr bool kHasRows = requires {
  name_of(Of<R>{});
};

template <typename R>
void add_table(std::vector<Table>& tables) {
  if constexpr (kHasRows<R>) tables.push_back(table_of<R>());
}

template <typename... Records>
std::vector<Table> tables_of(Of<std::variant<Records...>>) {
  std::vector<Table> tables;
  (add_table<Records>(tables), ...);
  return tables;
}

Status write_one(Database& database, const ForgottenAgent& agent) {
  for (const char* sql :
       {"DELETE FROM agents WHERE id = ?1", "DELETE FROM incarnations WHERE agent = ?1",
        "DELETE FROM links WHERE from_agent = ?1 OR to_agent = ?1"}) {
    const Result<Statement*> statement = database.cached(sql);
    if (!statement) return statement.error();
    (*statement)->bind(1, static_cast<std::int64_t>(agent.id.n));
    if (Status status = (*statement)->run(); !status.ok()) return status;
  }
  return {};
}

Status delete_row(Database& database, const char* sql, const std::string& key) {
  const Result<Statement*> statement = database.cached(sql);
  if (!statement) return statement.error();
  (*statement)->bind(1, std::string_view(key));
  return (*statement)->run();
}

Status write_one(Database& database, const RemovedFile& file) {
  return delete_row(database, "DELETE FROM files WHERE sha256 = ?1", file.sha256);
}

Status write_one(Database& database, const RemovedDataset& dataset) {
  return delete_row(database, "DELETE FROM datasets WHERE name = ?1", dataset.name);
}

}  // namespace

std::vector<Table> all_tables() {
  std::vector<Table> tables = tables_of(Of<Record>{});
  std::vector<Table> machines = tables_of(Of<MachineRow>{});
  for (Table& table : machines) tables.push_back(std::move(table));
  std::vector<Table> people = tables_of(Of<PeopleRow>{});
  for (Table& table : people) tables.push_back(std::move(table));
  std::vector<Table> files = tables_of(Of<FileRow>{});
  for (Table& table : files) tables.push_back(std::move(table));
  return tables;
}

template <typename R>
std::string select_sql() {
  std::string list;
  for (const Column& column : table_of<R>().columns)
    list += (list.empty() ? "t." : ", t.") + column.name;
  return "SELECT " + list + " FROM " + table_of<R>().name + " AS t ";
}

Status write_record(Database& database, const Record& record) {
  return std::visit([&](const auto& one) { return write_one(database, one); }, record);
}

Status write_machine_row(Database& database, const MachineRow& row) {
  return std::visit([&](const auto& one) { return write_one(database, one); }, row);
}

Status write_people_row(Database& database, const PeopleRow& row) {
  return std::visit([&](const auto& one) { return write_one(database, one); }, row);
}

Status write_file_row(Database& database, const FileRow& row) {
  return std::visit([&](const auto& one) { return write_one(database, one); }, row);
}

template <typename R>
Result<std::vector<R>> read_all(Statement& statement) {
  std::vector<R> records;
  for (;;) {
    const Result<bool> row = statement.step();
    if (!row) return row.error();
    if (!*row) break;
    Result<R> record = read_one<R>(statement);
    if (!record) return record.error();
    records.push_back(std::move(record).value());
  }
  statement.reset();
  return records;
}

#define SHOAL_ROWS(R)                   \
  template std::string select_sql<R>(); \
  template Result<std::vector<R>> read_all(Statement& statement)
SHOAL_ROWS(CounterRecord);
SHOAL_ROWS(JobRecord);
SHOAL_ROWS(AgentRecord);
SHOAL_ROWS(ReplicaRecord);
SHOAL_ROWS(RoundRecord);
SHOAL_ROWS(ContributionRecord);
SHOAL_ROWS(CheckpointRecord);
SHOAL_ROWS(EventRecord);
SHOAL_ROWS(SubmittedText);
SHOAL_ROWS(LinkRecord);
SHOAL_ROWS(AuthorityRecord);
SHOAL_ROWS(identity::JoinTokenRecord);
SHOAL_ROWS(MachineRecord);
SHOAL_ROWS(identity::ApiTokenRecord);
SHOAL_ROWS(SessionRecord);
SHOAL_ROWS(AuditRecord);
SHOAL_ROWS(FileRecord);
SHOAL_ROWS(DatasetRecord);
#undef SHOAL_ROWS

}  // namespace shoal::coordinator
