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

 private:
  // A job that continues a checkpoint of another begins with its round.
  void note(const JobRecord& job, const Tables& before) {
    RoundNumber& newest = newest_[job.id];
    const bool begins = !before.jobs.contains(job.id) && !job.spec.train.continue_from.empty();
    if (begins || is_open({job.id, job.epoch, job.committed_round}, before)) {
      newest = std::max(newest, job.committed_round);
    }
    if (job.committed_round <= newest) return;
    violated(to_string(job.id) + " is at round " + std::to_string(job.committed_round) +
             ", and the newest that was committed is " + std::to_string(newest));
  }

  void note(const RoundRecord& round, const Tables& before) {
    if (round.state != RoundState::kCommitted || !is_open(round.key, before)) return;
    newest_[round.key.job] = std::max(newest_[round.key.job], round.key.round);
  }

  // A round that is taken over from members was never open in these tables.
  static bool is_open(const RoundKey& key, const Tables& before) {
    const auto old = before.rounds.find(key);
    return old != before.rounds.end() && old->second.state != RoundState::kCommitted;
  }

  std::map<JobId, RoundNumber> newest_;
};

}  // namespace

std::unique_ptr<Checker> make_proved_claims(const Checker::Context& context) {
  return std::make_unique<ProvedClaims>(context);
}

}  // namespace shoal::sim
