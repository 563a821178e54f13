// Rounds of a job commit in order, once each per epoch, and a committed round never changes its
// average, its anchor or its tokens again. A new epoch continues at a round that was committed
// before, a job that continues another one behind the round of its checkpoint. The job's own record
// never runs ahead of its rounds.
#include <algorithm>
#include <map>
#include <utility>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/continued.h"

namespace shoal::sim {
namespace {

using coordinator::JobRecord;
using coordinator::Reduce;
using coordinator::RoundRecord;
using coordinator::RoundState;

class RoundOrder final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "round_order"; }

  void durable(const Record& record, const Tables& before) override {
    if (const auto* round = std::get_if<RoundRecord>(&record)) check_round(*round, before);
    if (const auto* job = std::get_if<JobRecord>(&record)) check_job(*job, before);
  }

  // A job continues from what the tables say, or from what was committed since the backup.
  void restored(const Tables& tables, bool forgotten) override {
    std::map<JobId, RoundKey> known = std::exchange(last_, {});
    for (const auto& [id, job] : tables.jobs) {
      if (job.committed_round == 0) continue;
      last_[id] = {id, job.epoch, job.committed_round};
    }
    if (forgotten) since_backup_.clear(), known.clear();
    for (const auto& [id, checkpoint] : tables.checkpoints) {  // a job may be behind its newest one
      if (checkpoint.state != coordinator::CheckpointState::kStored) continue;
      RoundKey& newest = known[checkpoint.key.job];
      newest = std::max(newest, checkpoint.key);
    }
    for (const auto& [id, key] :
         known) {  // or of the history before, if this one committed nothing
      since_backup_[id] = std::max(since_backup_[id], key);
    }
  }

  // Files tell of it where nobody lives who knows.
  void on_disk(const coordinator::CheckpointRecord& found, const Tables&) override {
    RoundKey& known = since_backup_[found.key.job];
    known = std::max(known, found.key);
  }

  void written(const Tables& tables) override {
    for (const auto& [id, key] : last_) {
      const auto job = tables.jobs.find(id);
      if (job == tables.jobs.end() || job->second.epoch != key.epoch) continue;
      if (job->second.committed_round != key.round) {
        violated(to_text(key) + " committed, the job says round " +
                 std::to_string(job->second.committed_round));
      }
    }
  }

 private:
  void check_round(const RoundRecord& round, const Tables& before) {
    const auto old = before.rounds.find(round.key);
    const bool was = old != before.rounds.end() && old->second.state == RoundState::kCommitted;
    if (was) return check_unchanged(old->second, round);
    if (round.state != RoundState::kCommitted) return;
    const auto last = last_.find(round.key.job);
    if (last != last_.end()) {
      const bool same = last->second.epoch == round.key.epoch;
      const bool next =
          same ? round.key.round == last->second.round + 1
               : round.key.epoch > last->second.epoch && round.key.round <= last->second.round + 1;
      if (!next && !follows(round.key))
        violated(to_text(round.key) + " committed after " + to_text(last->second));
    } else if (round.key.round != 1 && !follows(round.key)) {
      violated(to_text(round.key) + " is the first committed round");
    }
    last_[round.key.job] = round.key;
  }

  void check_unchanged(const RoundRecord& old, const RoundRecord& round) {
    if (round.state != RoundState::kCommitted) violated(to_text(round.key) + " was un-committed");
    const bool same = std::equal(old.reduces.begin(), old.reduces.end(), round.reduces.begin(),
                                 round.reduces.end(), [](const Reduce& a, const Reduce& b) {
                                   return a.average == b.average && a.attempt == b.attempt &&
                                          (!a.anchor || a.anchor == b.anchor);
                                 });
    if (round.tokens != old.tokens || !same) {
      violated(to_text(round.key) + " changed after its commit");
    }
  }

  void check_job(const JobRecord& job, const Tables& before) {
    const auto old = before.jobs.find(job.id);
    if (const auto* cut = begins_with(job, before)) begin_behind(*cut, job);
    if (old == before.jobs.end()) return;
    if (job.epoch < old->second.epoch) violated(to_string(job.id) + ": epoch went back");
    if (job.epoch == old->second.epoch && job.committed_round < old->second.committed_round) {
      violated(to_string(job.id) + ": committed round went back within its epoch");
    }
    if (is_terminal(old->second.phase) && job.phase != old->second.phase) {
      violated(to_string(job.id) + " left " + to_string(old->second.phase));
    }
  }

  void begin_behind(const coordinator::CheckpointRecord& cut, const JobRecord& job) {
    if (job.committed_round != cut.key.round || job.committed_step != cut.step ||
        job.committed_tokens != cut.tokens) {
      violated(to_string(job.id) + " does not begin where " + to_string(cut.id) + " is");
    }
    last_.try_emplace(job.id, RoundKey{job.id, job.epoch, cut.key.round});
  }

  // What nobody but agents, or files, knew. Its epoch need not be later than one that nobody alive
  // knows of: clocks are set back.
  bool follows(const RoundKey& key) const {
    const auto known = since_backup_.find(key.job);
    const auto last = last_.find(key.job);
    const bool later = last == last_.end() || key.epoch > last->second.epoch;
    return known != since_backup_.end() && later && key.round <= known->second.round + 1;
  }

  std::map<JobId, RoundKey> last_;
  std::map<JobId, RoundKey> since_backup_;  // last_ when a backup was put back
};

}  // namespace

std::unique_ptr<Checker> make_round_order(const Checker::Context& context) {
  return std::make_unique<RoundOrder>(context);
}

}  // namespace shoal::sim
