// No job is at a round that was never committed, whatever members say when a backup was put back or
// at any other time. Rounds commit in the tables of some history; a job of another history may
// continue from them.
#include <map>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::JobRecord;
using coordinator::RoundRecord;
using coordinator::RoundState;

class ProvedClaims final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "proved_claims"; }

  void durable(const Record& record, const Tables& before) override {
    if (const auto* round = std::get_if<RoundRecord>(&record)) note(*round, before);
    if (const auto* job = std::get_if<JobRecord>(&record)) note(*job, before);
  }

  // Records of one batch come in any order.
  void written(const Tables&) override {
    for (const auto& [id, round] : jobs_) {
      if (round > newest_[id]) {
        violated(to_string(id) + " is at round " + std::to_string(round) +
                 ", and the newest that was committed is " + std::to_string(newest_[id]));
      }
    }
    jobs_.clear();
  }

  void restored(const Tables&, bool) override { jobs_.clear(); }

 private:
  // A job that continues a checkpoint of another begins with its round.
  void note(const JobRecord& job, const Tables& before) {
    jobs_[job.id] = job.committed_round;
    if (before.jobs.contains(job.id) || job.spec.train.continue_from.empty()) return;
    newest_[job.id] = std::max(newest_[job.id], job.committed_round);
  }

  // A round that is taken over from members was never open in these tables.
  void note(const RoundRecord& round, const Tables& before) {
    const auto old = before.rounds.find(round.key);
    const bool open = old != before.rounds.end() && old->second.state != RoundState::kCommitted;
    if (round.state != RoundState::kCommitted || !open) return;
    newest_[round.key.job] = std::max(newest_[round.key.job], round.key.round);
  }

  std::map<JobId, RoundNumber> newest_, jobs_;
};

}  // namespace

std::unique_ptr<Checker> make_proved_claims(const Checker::Context& context) {
  return std::make_unique<ProvedClaims>(context);
}

}  // namespace shoal::sim
