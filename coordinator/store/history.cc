#include "coordinator/store/history.h"

#include <limits>

namespace shoal::coordinator {
namespace {

constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();

// Jobs of which nothing is kept; ?1 is keep_cut_.
const std::string kOver =
    "(SELECT j.id FROM jobs AS j WHERE j.removed_at_ns > 0"
    " OR (j.phase IN ('completed', 'cancelled', 'failed') AND j.finished_at_ns < ?1))";

const std::string kRemoved = "(SELECT j.id FROM jobs AS j WHERE j.removed_at_ns > 0)";

// Rounds that go; ?2 is full_cut_. Those that a restart reads stay, however old they are.
const std::string kRoundIsDue =
    "(t.job IN " + kOver +
    " OR (t.opened_at_ns < ?2 AND t.round % 10 <> 0 AND NOT EXISTS (SELECT 1 FROM jobs AS k"
    " WHERE k.id = t.job AND k.phase NOT IN ('completed', 'cancelled', 'failed')"
    " AND k.epoch = t.epoch AND t.round BETWEEN k.committed_round AND k.committed_round + 1)))";

void bind_all(Statement& statement, const std::vector<std::int64_t>& values) {
  int index = 0;
  for (const std::int64_t value : values) statement.bind(++index, value);
}

// The key that stands `rows` behind `after`; the greatest there is, where less is left.
Result<std::vector<std::int64_t>> key_behind(Database& database, const std::string& sql,
                                             const std::vector<std::int64_t>& after) {
  const auto statement = database.cached(sql);
  if (!statement) return statement.error();
  bind_all(**statement, after);
  const auto row = (*statement)->step();
  if (!row) return row.error();
  std::vector<std::int64_t> key(after.size(), kLast);
  for (std::size_t i = 0; *row && i < key.size(); ++i) {
    key[i] = (*statement)->integer(static_cast<int>(i));
  }
  (*statement)->reset();
  return key;
}

std::int64_t cut(std::int64_t newest, Duration age) {
  return age.ns > 0 && newest > age.ns ? newest - age.ns : 0;
}

}  // namespace

const std::vector<History::Part>& History::parts() {
  static const std::vector<Part> kParts = {&History::thin_rounds,     &History::forget_events,
                                           &History::forget_replicas, &History::forget_checkpoints,
                                           &History::forget_texts,    &History::forget_series,
                                           &History::thin_points};
  return kParts;
}

Result<bool> History::step() {
  if (!part_) {
    if (Status s = look_at_time(); !s.ok()) return s.error();
    part_ = 0;
    after_.clear();
  }
  const Result<bool> more = (this->*parts()[*part_])();
  if (!more) {
    part_.reset();
    return more.error();
  }
  if (*more) return true;
  after_.clear();
  if (++*part_ < parts().size()) return true;
  part_.reset();
  return false;
}

Status History::look_at_time() {
  const auto newest =
      state_.integer("SELECT coalesce((SELECT at_ns FROM events ORDER BY seq DESC LIMIT 1), 0)");
  if (!newest) return newest.error();
  keep_cut_ = cut(*newest, rules_.keep);
  full_cut_ = cut(*newest, rules_.full);
  return {};
}

Result<std::int64_t> History::change(const std::string& sql,
                                     const std::vector<std::int64_t>& values) {
  const auto statement = state_.cached(sql);
  if (!statement) return statement.error();
  bind_all(**statement, values);
  if (Status s = (*statement)->run(); !s.ok()) return s.error();
  return state_.integer("SELECT changes()");
}

Result<bool> History::thin_rounds() {
  if (after_.empty()) after_ = {0, -1, -1};
  static const std::string kBehind =
      "SELECT job, epoch, round FROM rounds WHERE (job, epoch, round) > (?1, ?2, ?3)"
      " ORDER BY job, epoch, round LIMIT 1 OFFSET " +
      std::to_string(kRoundsAStep - 1);
  const auto last = key_behind(state_, kBehind, after_);
  if (!last) return last.error();
  std::vector<std::int64_t> values = {keep_cut_, full_cut_};
  values.insert(values.end(), after_.begin(), after_.end());
  values.insert(values.end(), last->begin(), last->end());
  const std::string range =
      "(t.job, t.epoch, t.round) > (?3, ?4, ?5) AND (t.job, t.epoch, t.round) <= (?6, ?7, ?8)";
  if (Status s = delete_rounds(range, values); !s.ok()) return s.error();
  after_ = *last;
  return after_.front() != kLast;
}

// With their contributions, all at once.
Status History::delete_rounds(const std::string& range, const std::vector<std::int64_t>& values) {
  if (Status s = state_.exec("BEGIN IMMEDIATE"); !s.ok()) return s;
  const std::string due = range + " AND " + kRoundIsDue;
  Result<std::int64_t> done = change(
      "DELETE FROM contributions WHERE (job, epoch, round) IN"
      " (SELECT t.job, t.epoch, t.round FROM rounds AS t WHERE " +
          due + ")",
      values);
  if (done) done = change("DELETE FROM rounds AS t WHERE " + due, values);
  Status status = done ? state_.exec("COMMIT") : Status(done.error());
  if (!status.ok()) (void)state_.exec("ROLLBACK");  // the error to report is the first one
  return status;
}

// Those of removed jobs, and the oldest: their numbers grow with time.
Result<bool> History::forget_events() {
  const std::string limit = " LIMIT " + std::to_string(kRowsAStep) + ")";
  const auto removed = change(
      "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE job IN " + kRemoved + limit,
      {});
  if (!removed) return removed.error();
  const auto old = change(
      "DELETE FROM events WHERE at_ns < ?1 AND seq IN (SELECT seq FROM events ORDER BY seq" + limit,
      {keep_cut_});
  if (!old) return old.error();
  return *removed > 0 || *old > 0;
}

// The rows of a table with the key `id` for which `due` holds; ?1 is keep_cut_.
Result<bool> History::forget_by_id(const std::string& table, const std::string& due) {
  if (after_.empty()) after_ = {0};
  const auto last = key_behind(state_,
                               "SELECT id FROM " + table + " WHERE id > ?1 ORDER BY id LIMIT 1" +
                                   " OFFSET " + std::to_string(kRowsAStep - 1),
                               after_);
  if (!last) return last.error();
  const auto gone = change("DELETE FROM " + table + " WHERE id > ?2 AND id <= ?3 AND " + due,
                           {keep_cut_, after_.front(), last->front()});
  if (!gone) return gone.error();
  after_ = *last;
  return after_.front() != kLast;
}

Result<bool> History::forget_replicas() {
  return forget_by_id(
      "replicas",
      "state IN ('released', 'failed') AND (updated_at_ns < ?1 OR job IN " + kRemoved + ")");
}

Result<bool> History::forget_checkpoints() {
  return forget_by_id("checkpoints", "state = 'deleted' AND updated_at_ns < ?1");
}

Result<bool> History::forget_texts() {
  const auto gone = change("DELETE FROM submitted_texts WHERE job IN " + kRemoved, {});
  if (!gone) return gone.error();
  return false;
}

Result<bool> History::is_over(std::int64_t job) {
  const auto statement = state_.cached("SELECT 1 WHERE ?2 IN " + kOver);
  if (!statement) return statement.error();
  bind_all(**statement, {keep_cut_, job});
  const auto row = (*statement)->step();
  if (!row) return row.error();
  (*statement)->reset();
  return *row;
}

// Job by job, and of a job some points at a time.
Result<bool> History::forget_series() {
  if (after_.empty()) after_ = {0};
  const auto job = telemetry_.job_after(after_.front());
  if (!job) return job.error();
  if (*job == 0) return false;
  const auto over = is_over(*job);
  if (!over) return over.error();
  bool more = false;
  if (*over) {
    const auto left = telemetry_.forget_some(*job, kRowsAStep);
    if (!left) return left.error();
    more = *left;
  }
  if (!more) after_ = {*job};
  return true;
}

Result<bool> History::thin_points() {
  if (after_.empty()) after_ = {0, 0};
  if (full_cut_ == 0) return false;
  return telemetry_.thin_some(after_, full_cut_, kRowsAStep);
}

}  // namespace shoal::coordinator
