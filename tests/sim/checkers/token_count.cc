// Tokens are counted once. A committed round counts the tokens of its committed contributions
// (those of groups that gave up are kept) and the job the sum of its rounds; the sequences that
// those replicas really trained (seen at their reports) were not in any round that this lineage
// committed before, and were leased to them for this round.
#include <algorithm>
#include <map>
#include <set>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionRecord;
using coordinator::ContributionState;
using coordinator::RoundRecord;

class TokenCount final : public CommitChecker {
 public:
  using CommitChecker::CommitChecker;
  const char* name() const override { return "token_count"; }

  void restored(const Tables& tables, bool forgotten) override {
    CommitChecker::restored(tables, forgotten);
    for (auto& [job, lineage] : lineages_)
      lineage.number = -1;  // whatever comes, it is another one
  }

  void reported(const Reported& r) override {
    reports_[{r.report.key, r.replica}].insert_or_assign(r.report.steps, r.sequences);
  }

 private:
  struct Lineage {
    std::int64_t number = -1;
    std::map<RoundNumber, std::vector<DataLease>> rounds;  // what each committed round trained
    std::map<RoundNumber, std::int64_t> tokens;            // the job's total after each round
    std::set<std::int64_t> sequences;
  };

  void committed(const RoundRecord& round, const Tables& tables) override {
    Lineage& lineage = enter_lineage(round.key);
    std::int64_t tokens = 0;
    std::vector<DataLease>& trained = lineage.rounds[round.key.round];
    for (auto it = tables.contributions.lower_bound({round.key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == round.key; ++it) {
      const ContributionRecord& contribution = it->second;
      const bool counts = contribution.state == ContributionState::kCommitted ||
                          contribution.state == ContributionState::kKept;
      if (!counts) continue;
      if (contribution.stage != 0) continue;  // only routers draw
      tokens += contribution.report.drawn.count();
      take(contribution, tables.jobs.at(round.key.job), lineage, trained);
    }
    if (round.tokens.count() != tokens) {
      violated(to_text(round.key) + " counts " + std::to_string(round.tokens.count()) +
               " tokens, its contributions " + std::to_string(tokens));
    }
    const auto before = lineage.tokens.find(round.key.round - 1);
    const std::int64_t total = (before == lineage.tokens.end() ? 0 : before->second) + tokens;
    lineage.tokens[round.key.round] = total;
    const coordinator::JobRecord& job = tables.jobs.at(round.key.job);
    if (job.committed_round == round.key.round && job.committed_tokens.count() != total) {
      violated(to_string(job.id) + " counts " + std::to_string(job.committed_tokens.count()) +
               " tokens, its rounds " + std::to_string(total));
    }
  }

  void take(const ContributionRecord& contribution, const coordinator::JobRecord& job,
            Lineage& lineage, std::vector<DataLease>& trained) {
    const std::string who = to_string(contribution.replica) + " in " + to_text(contribution.key);
    const auto reports = reports_.find({contribution.key, contribution.replica});
    if (reports == reports_.end() || !reports->second.contains(contribution.report.steps)) {
      return violated(who + " counts without a report of its trainer");
    }
    std::int64_t count = 0;
    for (const DataLease& lease : reports->second.at(contribution.report.steps)) {
      trained.push_back(lease);
      count += lease.count;
      for (std::int64_t s = lease.first; s < lease.first + lease.count; ++s) {
        if (!lineage.sequences.insert(s).second) {
          return violated(who + " counts sequence " + std::to_string(s) + " a second time");
        }
        if (!leased(contribution, s)) {
          return violated(who + " trained sequence " + std::to_string(s) + ", not leased to it");
        }
      }
    }
    if (count * job.spec.model.context != contribution.report.drawn.count()) {
      violated(who + " reports " + std::to_string(contribution.report.drawn.count()) +
               " tokens of " + std::to_string(count) + " sequences");
    }
  }

  static bool leased(const ContributionRecord& contribution, std::int64_t sequence) {
    return std::any_of(contribution.leases.begin(), contribution.leases.end(),
                       [sequence](const DataLease& lease) {
                         return sequence >= lease.first && sequence < lease.first + lease.count;
                       });
  }

  // A rollback keeps what was counted up to the checkpoint's round and forgets the rest.
  Lineage& enter_lineage(const RoundKey& key) {
    Lineage& lineage = lineages_[key.job];
    if (lineage.number == key.lineage) return lineage;
    lineage.number = key.lineage;
    lineage.rounds.erase(lineage.rounds.lower_bound(key.round), lineage.rounds.end());
    lineage.tokens.erase(lineage.tokens.lower_bound(key.round), lineage.tokens.end());
    lineage.sequences.clear();
    for (const auto& [number, leases] : lineage.rounds) {
      for (const DataLease& lease : leases) {
        for (std::int64_t i = 0; i < lease.count; ++i) lineage.sequences.insert(lease.first + i);
      }
    }
    return lineage;
  }

  std::map<std::pair<RoundKey, ReplicaId>, std::map<Steps, std::vector<DataLease>>> reports_;
  std::map<JobId, Lineage> lineages_;
};

}  // namespace

std::unique_ptr<Checker> make_token_count(const Checker::Context& context) {
  return std::make_unique<TokenCount>(context);
}

}  // namespace shoal::sim
