// A paused job holds nothing, and nothing that it had committed is lost: no replica of it is live,
// and a stored checkpoint, of its own or the one that it was begun from, is exactly what it says it
// has committed. When it continues, it is from there: its first round and whatever its replicas
// load follow on that state.
#include <algorithm>
#include <map>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/continued.h"

namespace shoal::sim {
namespace {

using coordinator::CheckpointRecord;
using coordinator::CheckpointState;
using coordinator::JobPhase;
using coordinator::JobRecord;
using coordinator::RoundRecord;
using coordinator::RoundState;

class Pauses final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "pauses"; }

  void restored(const Tables&, bool) override {
    resumed_at_.clear();
    restored_ = true;
  }

  void durable(const Record& record, const Tables& before) override {
    if (const auto* job = std::get_if<JobRecord>(&record)) moved(*job, before);
    if (const auto* round = std::get_if<RoundRecord>(&record)) opened(*round);
  }

  void written(const Tables& tables) override {
    for (const auto& [id, job] : tables.jobs) {
      if (job.phase != JobPhase::kPaused) continue;
      for (const auto& [replica, record] : tables.replicas) {
        if (record.job != id || is_terminal(record.state)) continue;
        violated(to_string(id) + " is paused and has " + to_string(replica));
      }
      if (job.committed_round > 0 && !is_stored(job, tables)) {
        violated(to_string(id) + " is paused, and round " + std::to_string(job.committed_round) +
                 " is in no checkpoint");
      }
    }
  }

  void sent(const Sent& sent, const Tables&) override {
    const auto* assign = std::get_if<Assign>(&sent.message);
    if (assign == nullptr) return;
    const auto at = resumed_at_.find(assign->job);
    if (at == resumed_at_.end() || assign->source.key == at->second) return;
    violated(to_string(assign->job) + " went on from " + to_text(at->second) + ", and " +
             to_string(assign->replica) + " loads " + to_text(assign->source.key));
  }

 private:
  void moved(const JobRecord& job, const Tables& before) {
    const auto old = before.jobs.find(job.id);
    if (old == before.jobs.end()) return;
    const RoundKey committed{job.id, job.epoch, job.committed_round};
    const JobRecord& was = old->second;
    const bool decided = restored_ && job.epoch != was.epoch;  // from where it continues
    if (was.phase == JobPhase::kPaused && job.phase != JobPhase::kPaused && !decided) {
      const RoundKey from{was.id, was.epoch, was.committed_round};
      resumed_at_[job.id] = from;
      const bool same = from == committed && job.committed_step == was.committed_step &&
                        job.committed_tokens == was.committed_tokens;
      if (!same) violated(to_text(from) + " was paused, and continues as " + to_text(committed));
    }
    const auto at = resumed_at_.find(job.id);
    if (at != resumed_at_.end() && at->second != committed) resumed_at_.erase(at);
  }

  // Until its first commit after that.
  void opened(const RoundRecord& round) {
    const auto at = resumed_at_.find(round.key.job);
    if (at == resumed_at_.end() || round.state != RoundState::kOpen) return;
    const RoundKey& from = at->second;
    if (round.key == RoundKey{from.job, from.epoch, from.round + 1}) return;
    violated(to_text(round.key) + " is opened by a job that went on from " + to_text(from));
  }

  static bool is_stored(const JobRecord& job, const Tables& tables) {
    const CheckpointRecord* begun_from = continued_cut(job, tables);
    return std::any_of(tables.checkpoints.begin(), tables.checkpoints.end(), [&](const auto& e) {
      const CheckpointRecord& checkpoint = e.second;
      const bool own = checkpoint.key.job == job.id || &checkpoint == begun_from;
      return own && checkpoint.state == CheckpointState::kStored &&
             checkpoint.key.round == job.committed_round && checkpoint.step == job.committed_step &&
             std::equal(checkpoint.parts.begin(), checkpoint.parts.end(), job.stages.begin(),
                        job.stages.end(), [](const auto& part, const auto& stage) {
                          return part.anchor == stage.anchor && part.momentum == stage.momentum;
                        });
    });
  }

  std::map<JobId, RoundKey> resumed_at_;  // and nothing was committed, or lost, since
  bool restored_ = false;                 // a backup was put back
};

}  // namespace

std::unique_ptr<Checker> make_pauses(const Checker::Context& context) {
  return std::make_unique<Pauses>(context);
}

}  // namespace shoal::sim
