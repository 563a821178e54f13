#include "coordinator/store/sqlite_reader.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "coordinator/store/rows.h"
#include "coordinator/store/telemetry.h"

namespace shoal::coordinator {
namespace {

constexpr std::int64_t kQueryLimitMs = 1000;

// A WHERE clause under construction with the values of its parameters.
struct Where {
  std::string sql;
  std::vector<std::variant<std::int64_t, std::string>> values;  // bound in order to the '?'

  void add(const std::string& condition, std::int64_t value) {
    add(condition);
    values.emplace_back(value);
  }
  void add(const std::string& condition, const std::string& value) {
    add(condition);
    values.emplace_back(value);
  }
  void add(const std::string& condition) { sql += (sql.empty() ? "WHERE " : " AND ") + condition; }
  void bind(Statement& statement) const {
    int index = 0;
    for (const auto& value : values) {
      std::visit([&](const auto& each) { statement.bind(++index, each); }, value);
    }
  }
};

template <typename Enum>
std::string word_list(const std::vector<Enum>& words) {
  std::string list;
  for (const Enum word : words) {
    list += (list.empty() ? "'" : ", '") + std::string(to_string(word)) + "'";
  }
  return "(" + list + ")";
}

std::int64_t key_of(const JobRecord& r) { return static_cast<std::int64_t>(r.id.n); }
std::int64_t key_of(const AgentRecord& r) { return static_cast<std::int64_t>(r.id.n); }
std::int64_t key_of(const ReplicaRecord& r) { return static_cast<std::int64_t>(r.id.n); }
std::int64_t key_of(const CheckpointRecord& r) { return static_cast<std::int64_t>(r.id.n); }
std::int64_t key_of(const RoundRecord& r) { return r.key.round; }
std::int64_t key_of(const EventRecord& r) { return r.seq; }
std::int64_t key_of(const AuditRecord& r) { return r.seq; }

template <typename R>
Result<std::vector<R>> read_where(Database& database, const Where& where, const std::string& tail) {
  const auto statement = database.cached(select_sql<R>() + where.sql + tail);
  if (!statement) return statement.error();
  where.bind(**statement);
  return read_all<R>(**statement);
}

template <typename R>
Result<std::optional<R>> read_one(Database& database, const Where& where, const std::string& tail) {
  Result<std::vector<R>> records = read_where<R>(database, where, tail + " LIMIT 1");
  if (!records) return records.error();
  if (records->empty()) return std::optional<R>();
  return std::optional<R>(std::move(records->front()));
}

// `key` is the column of key_of(). Reads one row more than asked for to know whether a page
// follows.
template <typename R>
Result<Page<R>> read_page(Database& database, Where where, const std::string& key,
                          const PageRequest& page) {
  const int limit = std::clamp(page.limit, 1, 500);
  if (page.after > 0) where.add("t." + key + (page.newest_first ? " < ?" : " > ?"), page.after);
  where.values.emplace_back(std::int64_t{limit} + 1);
  auto records = read_where<R>(
      database, where, " ORDER BY t." + key + (page.newest_first ? " DESC" : "") + " LIMIT ?");
  if (!records) return records.error();
  Page<R> result{std::move(records).value(), std::nullopt};
  if (static_cast<int>(result.items.size()) > limit) {
    result.items.pop_back();
    result.next = key_of(result.items.back());
  }
  return result;
}

class SqliteReader final : public Reader {
 public:
  SqliteReader(const std::string& state_path, const std::string& telemetry_path)
      : state_(Database::open(state_path, OpenMode::kReadOnly, Durability::kFull)),
        telemetry_(Database::open(telemetry_path, OpenMode::kReadOnly, Durability::kNormal)) {
    if (state_) (*state_)->set_query_limit_ms(kQueryLimitMs);
    if (telemetry_) (*telemetry_)->set_query_limit_ms(kQueryLimitMs);
  }

  Result<Page<JobRecord>> jobs(const PageRequest& page, const JobFilter& filter) override {
    if (!state_) return state_.error();
    Where where;
    where.add("t.removed_at_ns = 0");
    if (!filter.phases.empty()) where.add("t.phase IN " + word_list(filter.phases));
    if (!filter.search.empty()) {
      where.add("instr(lower(t.name || char(10) || coalesce(t.description, '')), lower(?)) > 0",
                filter.search);
    }
    return read_page<JobRecord>(**state_, where, "id", page);
  }

  Result<std::optional<JobRecord>> job(JobId id) override {
    if (!state_) return state_.error();
    Where where = by_id(id.n);
    where.add("t.removed_at_ns = 0");
    return read_one<JobRecord>(**state_, where, "");
  }

  Result<std::optional<JobRecord>> job_by_name(const std::string& name) override {
    if (!state_) return state_.error();
    const auto statement =
        (*state_)->cached(select_sql<JobRecord>() +
                          "WHERE t.name = ?1 AND t.removed_at_ns = 0 ORDER BY t.id DESC LIMIT 1");
    if (!statement) return statement.error();
    (*statement)->bind(1, std::string_view(name));
    auto records = read_all<JobRecord>(**statement);
    if (!records) return records.error();
    if (records->empty()) return std::optional<JobRecord>();
    return std::optional(std::move(records->front()));
  }

  Result<std::optional<SubmittedText>> submitted_text(JobId job) override {
    if (!state_) return state_.error();
    return read_one<SubmittedText>(**state_, by_job(job), "");
  }

  Result<Page<AgentRecord>> agents(const PageRequest& page, bool with_gone) override {
    if (!state_) return state_.error();
    Where where;
    if (!with_gone) where.add("t.state <> 'gone'");
    return read_page<AgentRecord>(**state_, where, "id", page);
  }

  Result<std::optional<AgentRecord>> agent(AgentId id) override {
    if (!state_) return state_.error();
    return read_one<AgentRecord>(**state_, by_id(id.n), "");
  }

  Result<std::vector<LinkRecord>> links() override {
    if (!state_) return state_.error();
    return read_where<LinkRecord>(**state_, {}, " ORDER BY t.from_agent, t.to_agent LIMIT 100000");
  }

  Result<Page<ReplicaRecord>> replicas(JobId job, const PageRequest& page) override {
    if (!state_) return state_.error();
    return read_page<ReplicaRecord>(**state_, by_job(job), "id", page);
  }

  Result<Page<RoundRecord>> rounds(JobId job, const PageRequest& page) override {
    if (!state_) return state_.error();
    Where where = by_job(job);
    // After a rollback a round number stands in several epochs: the newest is the job's history,
    // and what lies beyond its next round was given up.
    where.add(
        "t.epoch = (SELECT max(r.epoch) FROM rounds AS r WHERE r.job = t.job"
        " AND r.round = t.round)");
    where.add("t.round <= (SELECT committed_round + 1 FROM jobs WHERE id = t.job)");
    return read_page<RoundRecord>(**state_, where, "round", page);
  }

  Result<std::vector<ContributionRecord>> contributions(const RoundKey& key) override {
    if (!state_) return state_.error();
    Where where = by_job(key.job);
    where.add("t.epoch = ?", key.epoch);
    where.add("t.round = ?", key.round);
    return read_where<ContributionRecord>(**state_, where, " ORDER BY t.replica");
  }

  Result<Page<CheckpointRecord>> checkpoints(JobId job, const PageRequest& page) override {
    if (!state_) return state_.error();
    return read_page<CheckpointRecord>(**state_, by_job(job), "id", page);
  }

  Result<Page<CheckpointRecord>> all_checkpoints(
      const PageRequest& page, const std::vector<CheckpointState>& states) override {
    if (!state_) return state_.error();
    Where where;
    if (!states.empty()) where.add("t.state IN " + word_list(states));
    return read_page<CheckpointRecord>(**state_, where, "id", page);
  }

  Result<std::optional<CheckpointRecord>> checkpoint(CheckpointId id) override {
    if (!state_) return state_.error();
    return read_one<CheckpointRecord>(**state_, by_id(id.n), "");
  }

  Result<Page<EventRecord>> events(const EventFilter& filter, const PageRequest& page) override {
    if (!state_) return state_.error();
    Where where;
    if (filter.job) where.add("t.job = ?", static_cast<std::int64_t>(filter.job->n));
    if (filter.agent) where.add("t.agent = ?", static_cast<std::int64_t>(filter.agent->n));
    if (filter.severity_min) {
      std::vector<Severity> accepted;
      for (const Severity s : {Severity::kInfo, Severity::kWarning, Severity::kError}) {
        if (s >= *filter.severity_min) accepted.push_back(s);
      }
      where.add("t.severity IN " + word_list(accepted));
    }
    return read_page<EventRecord>(**state_, where, "seq", page);
  }

  Result<Page<AuditRecord>> audit(const PageRequest& page) override {
    if (!state_) return state_.error();
    return read_page<AuditRecord>(**state_, {}, "seq", page);
  }

  Result<std::vector<SeriesNewest>> series_of(JobId job) override {
    if (!telemetry_) return telemetry_.error();
    return read_series_of(**telemetry_, job);
  }

  Result<std::vector<SeriesLine>> series(const SeriesQuery& query) override {
    if (!telemetry_) return telemetry_.error();
    return read_series(**telemetry_, query);
  }

  Result<std::vector<DeviceState>> devices() override {
    if (!telemetry_) return telemetry_.error();
    return read_devices(**telemetry_);
  }

  Result<std::vector<DeviceLine>> device_history(AgentId agent, Instant from) override {
    if (!telemetry_) return telemetry_.error();
    return read_device_history(**telemetry_, agent, from);
  }

 private:
  static Where by_id(std::uint64_t id) {
    Where where;
    where.add("t.id = ?", static_cast<std::int64_t>(id));
    return where;
  }
  static Where by_job(JobId job) {
    Where where;
    where.add("t.job = ?", static_cast<std::int64_t>(job.n));
    return where;
  }

  Result<std::unique_ptr<Database>> state_, telemetry_;
};

// For each live job the last committed round and the one it works on.
constexpr const char* kWantedRounds =
    "(SELECT r.job, r.epoch, r.round FROM jobs AS j JOIN rounds AS r ON r.job = j.id"
    " AND r.epoch = j.epoch AND r.round BETWEEN j.committed_round AND j.committed_round + 1"
    " WHERE j.phase NOT IN ('completed', 'cancelled', 'failed'))";

template <typename R>
Status load_into(Database& database, const std::string& where, std::vector<R>& records) {
  auto statement = database.prepare(select_sql<R>() + where);
  if (!statement) return statement.error();
  auto read = read_all<R>(*statement);
  if (!read) return read.error();
  records = std::move(read).value();
  return {};
}

}  // namespace

std::unique_ptr<Reader> open_sqlite_reader(const std::string& state_path,
                                           const std::string& telemetry_path) {
  return std::make_unique<SqliteReader>(state_path, telemetry_path);
}

Result<Snapshot> read_snapshot(Database& database) {
  Snapshot snapshot;
  std::vector<CounterRecord> counters;
  const std::string wanted = std::string("WHERE (t.job, t.epoch, t.round) IN ") + kWantedRounds;
  Status status = load_into(database, "", counters);
  if (status.ok()) status = load_into(database, "ORDER BY t.id", snapshot.jobs);
  if (status.ok()) status = load_into(database, "ORDER BY t.id", snapshot.agents);
  if (status.ok()) {
    status = load_into(database, "WHERE t.state NOT IN ('released', 'failed') ORDER BY t.id",
                       snapshot.replicas);
  }
  if (status.ok()) {
    status = load_into(database, wanted + " ORDER BY t.job, t.epoch, t.round", snapshot.rounds);
  }
  if (status.ok()) {
    status = load_into(database, wanted + " ORDER BY t.job, t.epoch, t.round, t.replica",
                       snapshot.contributions);
  }
  if (status.ok()) {
    status = load_into(database, "WHERE t.state <> 'deleted' ORDER BY t.id", snapshot.checkpoints);
  }
  if (status.ok())
    status = load_into(database, "ORDER BY t.from_agent, t.to_agent", snapshot.links);
  if (!status.ok()) return status.error();
  if (!counters.empty()) snapshot.counters = counters.front();
  return snapshot;
}

}  // namespace shoal::coordinator
