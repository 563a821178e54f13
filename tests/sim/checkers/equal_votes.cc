// A commit has an equal vote from every member that is still in the plan. Votes are taken from the
// trainers themselves: the digest of the average each really holds. A member that did not vote for
// the committed average must be dead, or excluded by name (its contribution is lost).
#include <map>
#include <tuple>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionRecord;
using coordinator::ContributionState;
using coordinator::RoundRecord;

class EqualVotes final : public ReduceChecker {
 public:
  using ReduceChecker::ReduceChecker;
  const char* name() const override { return "equal_votes"; }

  void averaged(const Averaged& a) override {
    votes_[{a.key, a.attempt, a.replica}] = {a.digest, digest_of(a.average)};
  }

  void sent(const Sent& s, const Tables&) override {
    if (const auto* plan = std::get_if<ToReplica<ReducePlan>>(&s.message)) {
      plans_[{plan->body.key, plan->body.attempt, plan->replica}] = plan->body;
    }
  }

 private:
  struct Seen {
    Digest voted, values;
  };

  void reduced(const RoundRecord& round, coordinator::ReduceIndex index,
               const Tables& tables) override {
    const coordinator::Reduce& reduce = reduce_at(round, index);
    const std::string what = to_text(round.key) + " reduce " + std::to_string(index);
    const ReducePlan* plan = find_by_member(plans_, round, index, tables);
    if (plan == nullptr) return violated(what + " committed without a plan");
    std::optional<Digest> average;
    for (const ReduceMember& member : plan->members) {
      if (member.reducer) continue;  // it has no average
      const auto it = tables.contributions.find({round.key, member.replica});
      const bool lost =
          it == tables.contributions.end() || it->second.state == ContributionState::kLost;
      if (lost) continue;
      const auto vote = votes_.find({round.key, averaging_attempt(reduce), member.replica});
      const std::string who = to_string(member.replica) + " in " + what;
      if (vote == votes_.end()) {
        if (is_terminal(tables.replicas.at(member.replica).state)) continue;  // it died on the way
        return violated(who + " is a member of the commit without a vote");
      }
      if (vote->second.voted != reduce.average) return violated(who + " voted for another average");
      if (average && *average != vote->second.values) return violated(who + " has other values");
      average = vote->second.values;
    }
  }

  std::map<std::tuple<RoundKey, std::int32_t, ReplicaId>, Seen> votes_;
  std::map<std::tuple<RoundKey, std::int32_t, ReplicaId>, ReducePlan> plans_;
};

}  // namespace

std::unique_ptr<Checker> make_equal_votes(const Checker::Context& context) {
  return std::make_unique<EqualVotes>(context);
}

}  // namespace shoal::sim
