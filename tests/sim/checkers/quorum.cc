// No round commits while fewer than min_replicas of a stage took part (their pseudo-gradient is in
// the average, or they followed with weight 0 or in a group that gave up), or without a single
// contribution of it that counts.
#include <map>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;
using coordinator::RejectReason;
using coordinator::RoundRecord;

class Quorum final : public CommitChecker {
 public:
  using CommitChecker::CommitChecker;
  const char* name() const override { return "quorum"; }

  void submitted(const JobSpec& spec) override { wanted_[spec.name] = spec.swarm.min_replicas; }

 private:
  void committed(const RoundRecord& round, const Tables& tables) override {
    const coordinator::JobRecord& job = tables.jobs.at(round.key.job);
    for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
      check(round.key, static_cast<StageIndex>(stage), tables);
    }
  }

  void check(const RoundKey& key, StageIndex stage, const Tables& tables) {
    std::int64_t took_part = 0, counted = 0;
    for (auto it = tables.contributions.lower_bound({key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == key; ++it) {
      const auto& contribution = it->second;
      if (contribution.stage != stage || contribution.reducer) continue;
      const bool counts = contribution.state == ContributionState::kCommitted;
      const bool excluded = contribution.reject_reason == RejectReason::kExcluded;
      const bool follows = (contribution.state == ContributionState::kRejected && !excluded) ||
                           contribution.state == ContributionState::kLate ||
                           contribution.state == ContributionState::kFollowed ||
                           contribution.state == ContributionState::kKept;
      counted += counts && contribution.weight > 0;
      took_part += counts || follows;
    }
    const std::int64_t wanted = wanted_[tables.jobs.at(key.job).spec.name];
    if (took_part < wanted || counted < 1) {
      violated(to_text(key) + " stage " + std::to_string(stage) + " committed with " +
               std::to_string(took_part) + " members, " + std::to_string(counted) +
               " of them counted; " + std::to_string(wanted) + " are needed");
    }
  }

  std::map<std::string, std::int64_t> wanted_;  // by job name, as the user asked for
};

}  // namespace

std::unique_ptr<Checker> make_quorum(const Checker::Context& context) {
  return std::make_unique<Quorum>(context);
}

}  // namespace shoal::sim
