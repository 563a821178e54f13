// Nothing counts in a commit that is much longer than its member reported, where others own parts
// and saw it. What is compared is the vector that the trainer really sends, in the parts of the
// others that train and are still there.
#include <algorithm>
#include <map>
#include <tuple>

#include "outer_opt/core/round/groups.h"
#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionRecord;
using coordinator::ContributionState;
using coordinator::RoundRecord;

constexpr double kMuch = 16;  // of squares: above what any codec adds

class SentNorms final : public ReduceChecker {
 public:
  using ReduceChecker::ReduceChecker;
  const char* name() const override { return "sent_norms"; }

  void contributed(const Contributed& c) override {
    const bool owned =
        c.plan.topology == Topology::kButterfly || c.plan.topology == Topology::kParamServer;
    if (!owned || outer_opt::averages_in_groups(c.spec.sync) || c.sent.empty()) return;
    std::map<ReplicaId, double>& by_owner = sent_[{c.plan.key, c.plan.attempt, c.replica}];
    for (const ReduceMember& owner : c.plan.members) {
      if (owner.replica == c.replica || owner.reducer) continue;  // not every reducer is heard
      double& squares = by_owner[owner.replica];
      for (const float value : c.sent.subspan(static_cast<std::size_t>(owner.part_first),
                                              static_cast<std::size_t>(owner.part_count))) {
        squares += double{value} * double{value};
      }
    }
  }

 private:
  void reduced(const RoundRecord& round, coordinator::ReduceIndex index,
               const Tables& tables) override {
    const std::int32_t attempt = averaging_attempt(reduce_at(round, index));
    for (auto it = tables.contributions.lower_bound({round.key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == round.key; ++it) {
      const ContributionRecord& own = it->second;
      const auto sent = sent_.find({round.key, attempt, own.replica});
      if (coordinator::reduce_index(own) != index) continue;  // another stage counts its attempts
      if (own.state != ContributionState::kCommitted || sent == sent_.end()) continue;
      double squares = 0;
      for (const auto& [owner, of_part] : sent->second) {
        const auto replica = tables.replicas.find(owner);
        const bool there = replica != tables.replicas.end() &&
                           replica->second.state != coordinator::ReplicaState::kAbsent &&
                           !is_terminal(replica->second.state);
        if (there) squares += of_part;
      }
      if (squares <= kMuch * own.report.norm * own.report.norm) continue;
      return violated(to_string(own.replica) + " counts in " + to_text(round.key) +
                      " with squares of " + std::to_string(squares) + ", and reported a norm of " +
                      std::to_string(own.report.norm));
    }
    const RoundKey oldest{round.key.job, round.key.epoch, round.key.round - 1};
    sent_.erase(sent_.lower_bound({RoundKey{oldest.job, 0, 0}, 0, {}}),
                sent_.lower_bound({oldest, 0, {}}));
  }

  // What it sends to each of the others: squares.
  std::map<std::tuple<RoundKey, std::int32_t, ReplicaId>, std::map<ReplicaId, double>> sent_;
};

}  // namespace

std::unique_ptr<Checker> make_sent_norms(const Checker::Context& context) {
  return std::make_unique<SentNorms>(context);
}

}  // namespace shoal::sim
