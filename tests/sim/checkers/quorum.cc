// No round commits while fewer than min_replicas took part (their pseudo-gradient is in the
// average, or they followed with weight 0), or without a single contribution that counts.
#include <map>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;
using coordinator::RoundRecord;
using coordinator::RoundState;

class Quorum final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "quorum"; }

  void submitted(const JobSpec& spec) override { wanted_[spec.name] = spec.swarm.min_replicas; }

  void durable(const Record& record, const Tables& before) override {
    const auto* round = std::get_if<RoundRecord>(&record);
    if (round == nullptr || round->state != RoundState::kCommitted) return;
    const auto old = before.rounds.find(round->key);
    if (old != before.rounds.end() && old->second.state == RoundState::kCommitted) return;
    committed_.push_back(round->key);
  }

  void written(const Tables& tables) override {
    for (const RoundKey& key : committed_) check(key, tables);
    committed_.clear();
  }

 private:
  void check(const RoundKey& key, const Tables& tables) {
    std::int64_t took_part = 0, counted = 0;
    for (auto it = tables.contributions.lower_bound({key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == key; ++it) {
      const auto& contribution = it->second;
      const bool counts = contribution.state == ContributionState::kCommitted;
      const bool follows = contribution.state == ContributionState::kRejected;
      counted += counts && contribution.weight > 0;
      took_part += counts || follows;
    }
    const std::int64_t wanted = wanted_[tables.jobs.at(key.job).spec.name];
    if (took_part < wanted || counted < 1) {
      violated(to_text(key) + " committed with " + std::to_string(took_part) + " members, " +
               std::to_string(counted) + " of them counted; " + std::to_string(wanted) +
               " are needed");
    }
  }

  std::map<std::string, std::int64_t> wanted_;  // by job name, as the user asked for
  std::vector<RoundKey> committed_;
};

}  // namespace

std::unique_ptr<Checker> make_quorum(const Checker::Context& context) {
  return std::make_unique<Quorum>(context);
}

}  // namespace shoal::sim
