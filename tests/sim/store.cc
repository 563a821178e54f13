// Tables, batches and the loading rule: see store.h.
#include "tests/sim/store.h"

#include <algorithm>

#include "base/check.h"

namespace shoal::sim {

using coordinator::CheckpointState;
using coordinator::RoundState;

namespace {

constexpr Duration kBackupEvery = seconds(10);
constexpr std::size_t kBackupsKept = 8;

struct Apply {
  Tables& t;
  void operator()(const coordinator::CounterRecord& r) { t.counters = r; }
  void operator()(const coordinator::JobRecord& r) { t.jobs[r.id] = r; }
  void operator()(const coordinator::AgentRecord& r) { t.agents[r.id] = r; }
  void operator()(const coordinator::ReplicaRecord& r) { t.replicas[r.id] = r; }
  void operator()(const coordinator::RoundRecord& r) { t.rounds[r.key] = r; }
  void operator()(const coordinator::ContributionRecord& r) {
    t.contributions[{r.key, r.replica}] = r;
  }
  void operator()(const coordinator::CheckpointRecord& r) { t.checkpoints[r.id] = r; }
  void operator()(const coordinator::LinkRecord& r) { t.links[{r.from, r.to}] = r; }
  void operator()(const coordinator::ForgottenAgent& r) {
    t.agents.erase(r.id);
    std::erase_if(t.links, [&](const auto& line) {
      return line.first.first == r.id || line.first.second == r.id;
    });
  }
  void operator()(const coordinator::EventRecord&) { ++t.events; }
  void operator()(const coordinator::SubmittedText&) {}
};

}  // namespace

void Tables::apply(const Record& record) { std::visit(Apply{*this}, record); }

coordinator::Snapshot Tables::snapshot() const {
  coordinator::Snapshot out;
  out.counters = counters;
  for (const auto& [id, job] : jobs) out.jobs.push_back(job);
  for (const auto& [id, agent] : agents) out.agents.push_back(agent);
  for (const auto& [id, replica] : replicas) {
    if (!coordinator::is_terminal(replica.state)) out.replicas.push_back(replica);
  }
  std::map<JobId, RoundKey> last;  // keys are sorted, so the last one seen is the newest
  for (const auto& [key, round] : rounds) {
    if (round.state == RoundState::kCommitted) last[key.job] = key;
  }
  for (const auto& [key, round] : rounds) {
    if (round.state == RoundState::kCommitted && last.at(key.job) != key) continue;
    out.rounds.push_back(round);
    for (auto it = contributions.lower_bound({key, ReplicaId{}});
         it != contributions.end() && it->first.first == key; ++it) {
      out.contributions.push_back(it->second);
    }
  }
  for (const auto& [id, checkpoint] : checkpoints) {
    if (checkpoint.state != CheckpointState::kDeleted) out.checkpoints.push_back(checkpoint);
  }
  for (const auto& [key, link] : links) out.links.push_back(link);
  return out;
}

void SimStore::write(std::vector<Record> records, std::function<void(bool)> done) {
  if (failed_) return done(false);
  batches_.push_back({std::move(records), std::move(done)});
  if (batches_.size() == 1) start_front();
}

void SimStore::start_front() {
  const Duration delay = std::min(seconds_f(prng_.exponential(mean_.seconds())), mean_ * 10);
  queue_.after(delay, [this, life = life_] {
    if (life == life_) end_of_write();
  });
}

void SimStore::end_of_write() {
  if (paused_) {
    held_ = true;
  } else if (!fail_front()) {
    commit_front();
  }
}

void SimStore::resume() {
  paused_ = false;
  if (std::exchange(held_, false)) end_of_write();
}

// True: the write failed, and so did those that wait behind it.
bool SimStore::fail_front() {
  const bool full = is_full();
  const bool fails = full || std::exchange(fail_fsync_, false);
  if (!fails) return false;
  failed_ = true;
  if (on_failure) on_failure(full);
  std::function<void(bool)> told = std::move(batches_.front().done);
  const bool on_disk = !full && prng_.chance(0.5);
  if (!on_disk) batches_.pop_front();
  while (batches_.size() > (on_disk ? 1 : 0)) batches_.pop_back();
  if (on_disk) {
    batches_.front().done = nullptr;
    commit_front();
  }
  told(false);
  return true;
}

void SimStore::commit_front() {
  Batch batch = std::move(batches_.front());
  batches_.pop_front();
  if (keep_history_) {
    history_.push_back(tables_);
    if (history_.size() > 5) history_.pop_front();
  }
  for (const Record& record : batch.records) {
    on_durable_(record, tables_);
    tables_.apply(record);
  }
  keep_backup();
  if (!batches_.empty()) start_front();
  if (batch.done) batch.done(true);
}

void SimStore::keep_backup() {
  if (!keep_backups_ || queue_.now() < backup_due_) return;
  backup_due_ = queue_.now() + kBackupEvery;
  backups_.push_back(tables_);
  backups_.back().counters.backup_at = queue_.now();  // as `shoal admin backup` does
  if (backups_.size() > kBackupsKept) backups_.pop_front();
}

void SimStore::restore(std::size_t back) {
  SHOAL_CHECK(back < backups_.size() && batches_.empty());
  backups_.resize(backups_.size() - back);
  tables_ = backups_.back();
}

// The newest batches hold a commit and nobody came or went in them.
bool SimStore::lost_a_commit() const {
  if (history_.empty()) return false;
  const Tables& before = history_.front();
  if (before.replicas.size() != tables_.replicas.size() ||
      before.jobs.size() != tables_.jobs.size()) {
    return false;
  }
  for (const auto& [id, job] : tables_.jobs) {
    if (before.jobs.at(id).committed_round < job.committed_round) return true;
  }
  return false;
}

// Records of the front batch reached the disk without the mark that ends it.
void SimStore::tear_front(bool keep) {
  std::vector<Record> records = std::move(batches_.front().records);
  batches_.clear();
  if (!keep || records.size() < 2) return;
  records.resize(records.size() / 2);
  for (const Record& record : records) {
    on_durable_(record, tables_);
    tables_.apply(record);
  }
}

void SimStore::crash(StoreCrash crash) {
  ++life_;
  paused_ = held_ = failed_ = fail_fsync_ = false;
  if (crash == StoreCrash::kLoseDurable && lost_a_commit()) {
    tables_ = history_.front();
    history_.clear();
    batches_.clear();
    return;
  }
  const bool torn = crash == StoreCrash::kTorn || crash == StoreCrash::kKeepTorn;
  if (!batches_.empty() && torn) return tear_front(crash == StoreCrash::kKeepTorn);
  if (!batches_.empty() && prng_.chance(0.5)) {
    batches_.front().done = nullptr;
    Batch front = std::move(batches_.front());
    batches_.clear();
    batches_.push_back(std::move(front));
    commit_front();
  }
  batches_.clear();
}

}  // namespace shoal::sim
