// Every sequence that was ever leased is trained, leased or to be given out again, and only one of
// these: [0, next_sequence) of a job is what its trainers really trained for the rounds that it has
// committed (seen at their reports), what its open round has leased, and what was returned. A job
// that continues another one has trained what that one had.
#include <algorithm>
#include <map>
#include <set>

#include "outer_opt/core/round/lease_runs.h"
#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"
#include "tests/sim/checkers/continued.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionRecord;
using coordinator::ContributionState;
using coordinator::JobRecord;
using coordinator::RoundRecord;
using outer_opt::LeaseRuns;

// Sorted, adjacent runs made one; runs that overlap stay apart.
LeaseRuns in_order(LeaseRuns runs) {
  std::sort(runs.begin(), runs.end());
  LeaseRuns merged;
  for (const DataLease& run : runs) outer_opt::append(merged, run);
  return merged;
}

void add(LeaseRuns& all, const LeaseRuns& runs) { all.insert(all.end(), runs.begin(), runs.end()); }

class Ledger final : public CommitChecker {
 public:
  using CommitChecker::CommitChecker;
  const char* name() const override { return "ledger"; }

  void reported(const Reported& r) override {
    reports_[{r.report.key, r.replica}][r.report.steps] = r.sequences;
  }

  // A job that has gone back before may continue from either history: no record tells from which.
  void restored(const Tables& tables, bool forgotten) override {
    CommitChecker::restored(tables, forgotten);
    changed_.clear();
    for (const auto& [id, trained] : trained_) {
      const auto job = tables.jobs.find(id);
      const bool went_back = job != tables.jobs.end() && job->second.epoch > 0;
      if (trained.epoch > 0 || went_back) blind_.insert(id);
    }
  }
  void durable(const Record& record, const Tables& before) override {
    CommitChecker::durable(record, before);
    const auto* job = std::get_if<JobRecord>(&record);
    if (job == nullptr) return;
    if (const auto* cut = begins_with(*job, before)) take_over(cut->key, *job);
    changed_.insert(job->id);
  }

  void written(const Tables& tables) override {
    CommitChecker::written(tables);
    for (const JobId id : changed_) check(tables.jobs.at(id), tables);
    changed_.clear();
  }

 private:
  using Rounds = std::map<RoundNumber, LeaseRuns>;  // what each committed round trained
  struct Trained {
    std::int64_t epoch = 0;
    Rounds rounds;
  };

  void committed(const RoundRecord& round, const Tables& tables) override {
    LeaseRuns trained;
    for (auto it = tables.contributions.lower_bound({round.key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == round.key; ++it) {
      const ContributionRecord& contribution = it->second;
      // What was trained to values that are not finite is not trained again.
      const bool counts = contribution.state == ContributionState::kCommitted ||
                          contribution.state == ContributionState::kKept ||
                          contribution.reject_reason == coordinator::RejectReason::kNonFinite;
      if (!counts || contribution.stage != 0) continue;
      add(trained, reports_[it->first][contribution.report.steps]);
    }
    of(tables.jobs.at(round.key.job)).rounds[round.key.round] = in_order(std::move(trained));
    std::erase_if(reports_, [&](const auto& report) {
      return report.first.first.job == round.key.job && report.first.first < round.key;
    });
  }

  void take_over(const RoundKey& cut, const JobRecord& job) {
    if (blind_.contains(cut.job)) blind_.insert(job.id);
    Rounds rounds = trained_[cut.job].rounds;
    rounds.erase(rounds.upper_bound(cut.round), rounds.end());
    trained_[job.id] = {job.epoch, std::move(rounds)};
  }

  // A rollback forgets what was trained after the state that it goes back to.
  Trained& of(const JobRecord& job) {
    Trained& trained = trained_[job.id];
    if (trained.epoch != job.epoch) {
      trained.rounds.erase(trained.rounds.upper_bound(job.committed_round), trained.rounds.end());
      trained.epoch = job.epoch;
    }
    return trained;
  }

  void check(const JobRecord& job, const Tables& tables) {
    if (blind_.contains(job.id) || is_terminal(job.phase)) return;
    LeaseRuns all = job.returned;
    for (const auto& [number, runs] : of(job).rounds) {
      if (number <= job.committed_round) add(all, runs);
    }
    const RoundKey open{job.id, job.epoch, job.committed_round + 1};
    for (auto it = tables.contributions.lower_bound({open, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == open; ++it) {
      add(all, it->second.leases);
    }
    std::int64_t end = 0;
    for (const DataLease& run : in_order(std::move(all))) {
      if (run.count == 0) continue;
      if (run.first != end) return tell(job, end, run.first);
      end = run.first + run.count;
    }
    if (end != job.next_sequence) tell(job, end, job.next_sequence);
  }

  void tell(const JobRecord& job, std::int64_t end, std::int64_t next) {
    const std::string where = " of " + to_string(job.id) + ", which leased " +
                              std::to_string(job.next_sequence) + " by round " +
                              std::to_string(job.committed_round);
    if (next < end) {
      violated("sequence " + std::to_string(next) + where + ", is there twice");
    } else {
      violated("sequences " + std::to_string(end) + " to " + std::to_string(next - 1) + where +
               ", are forgotten");
    }
  }

  std::map<std::pair<RoundKey, ReplicaId>, std::map<Steps, LeaseRuns>> reports_;
  std::map<JobId, Trained> trained_;
  std::set<JobId> changed_;
  std::set<JobId> blind_;
};

}  // namespace

std::unique_ptr<Checker> make_ledger(const Checker::Context& context) {
  return std::make_unique<Ledger>(context);
}

}  // namespace shoal::sim
