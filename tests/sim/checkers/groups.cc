// Rounds in groups. Nobody is in two groups of a round; what a member sends is made of its own
// anchor and pseudo-gradient; a member whose group gave up continues from where it was, with its
// progress or from its anchor as it was told; and a committed round has a group that averaged, and
// kept contributions in groups that gave up only.
#include "outer_opt/core/round/groups.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "coordinator/core/state/state.h"
#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;
using coordinator::RoundRecord;

class Groups final : public CommitChecker {
 public:
  using CommitChecker::CommitChecker;
  const char* name() const override { return "groups"; }

  void sent(const Sent& s, const Tables&) override {
    const auto* told = std::get_if<ToReplica<ReducePlan>>(&s.message);
    if (told == nullptr) return;
    const ReducePlan& plan = told->body;
    for (const ReduceMember& member : plan.members) {
      const auto [first, fresh] = of_member_.emplace(
          std::tuple(plan.key, plan.attempt, member.replica), plan.members.front().replica);
      if (!fresh && first->second != plan.members.front().replica) {
        return violated(to_string(member.replica) + " is in two plans of " + to_text(plan.key));
      }
    }
  }

  // x = anchor - lr * D, each operation rounded once.
  void contributed(const Contributed& c) override {
    if (!outer_opt::averages_in_groups(c.spec.sync) || c.pseudo_gradient.empty()) return;
    const auto scale = static_cast<float>(c.plan.outer_lr);
    for (std::size_t i = 0; i < c.sent.size(); ++i) {
      const float step = scale * c.pseudo_gradient[i];
      if (c.sent[i] == c.anchor[i] - step) continue;
      return violated(to_string(c.replica) + " sends another vector than its own in " +
                      to_text(c.plan.key));
    }
  }

  void stayed(const Stayed& s) override {
    const std::span<const float> wanted = s.counts ? s.local_before : s.anchor;
    if (std::equal(wanted.begin(), wanted.end(), s.local.begin(), s.local.end())) return;
    violated(to_string(s.replica) + " continues after " + to_text(s.key) + " from elsewhere than " +
             (s.counts ? "where it was" : "its anchor"));
  }

 private:
  void committed(const RoundRecord& round, const Tables& tables) override {
    const auto averaged = [](const coordinator::Reduce& reduce) { return !reduce.given_up; };
    if (std::none_of(round.reduces.begin(), round.reduces.end(), averaged)) {
      return violated(to_text(round.key) + " committed without a group that averaged");
    }
    for (auto it = tables.contributions.lower_bound({round.key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == round.key; ++it) {
      const auto& contribution = it->second;
      const bool kept = contribution.state == ContributionState::kKept;
      const bool counts = contribution.state == ContributionState::kCommitted;
      const bool given_up = coordinator::reduce_of(round, contribution).given_up;
      if ((kept && !given_up) || (counts && given_up)) {
        return violated(to_string(contribution.replica) + " is " + to_string(contribution.state) +
                        " in " + to_text(round.key) + ", and so is not its group");
      }
    }
  }

  // The plan that a replica was told of, named by its first member.
  std::map<std::tuple<RoundKey, std::int32_t, ReplicaId>, ReplicaId> of_member_;
};

}  // namespace

std::unique_ptr<Checker> make_groups(const Checker::Context& context) {
  return std::make_unique<Groups>(context);
}

}  // namespace shoal::sim
