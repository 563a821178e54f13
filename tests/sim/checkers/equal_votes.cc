// A commit has an equal vote from every member that is still in the plan. Votes are taken from the
// trainers themselves: the digest of the average each really holds. A member that did not vote for
// the committed average must be dead, or left out by name (its contribution is lost).
#include <map>
#include <tuple>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionRecord;
using coordinator::ContributionState;
using coordinator::RoundRecord;
using coordinator::RoundState;

class EqualVotes final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "equal_votes"; }

  void averaged(const Averaged& a) override {
    votes_[{a.key, a.attempt, a.replica}] = {a.digest, digest_of(a.average)};
  }

  void sent(const Sent& s, const Tables&) override {
    if (const auto* plan = std::get_if<ToReplica<ReducePlan>>(&s.message)) {
      plans_[{plan->body.key, plan->body.attempt}] = plan->body;
    }
  }

  void durable(const Record& record, const Tables& before) override {
    const auto* round = std::get_if<RoundRecord>(&record);
    if (round == nullptr || round->state != RoundState::kCommitted) return;
    const auto old = before.rounds.find(round->key);
    if (old != before.rounds.end() && old->second.state == RoundState::kCommitted) return;
    committed_.push_back(*round);
  }

  void written(const Tables& tables) override {
    for (const RoundRecord& round : committed_) check(round, tables);
    committed_.clear();
  }

 private:
  struct Seen {
    Digest voted, values;
  };
  void check(const RoundRecord& round, const Tables& tables) {
    const auto plan = plans_.find({round.key, round.attempt});
    if (plan == plans_.end()) return violated(to_text(round.key) + " committed without a plan");
    std::optional<Digest> average;
    for (const ReduceMember& member : plan->second.members) {
      const auto it = tables.contributions.find({round.key, member.replica});
      const bool lost =
          it == tables.contributions.end() || it->second.state == ContributionState::kLost;
      if (lost) continue;
      const auto vote = votes_.find({round.key, round.attempt, member.replica});
      const std::string who = to_string(member.replica) + " in " + to_text(round.key);
      if (vote == votes_.end()) {
        if (is_terminal(tables.replicas.at(member.replica).state)) continue;  // it died on the way
        return violated(who + " is a member of the commit without a vote");
      }
      if (vote->second.voted != round.average) return violated(who + " voted for another average");
      if (average && *average != vote->second.values) return violated(who + " has other values");
      average = vote->second.values;
    }
  }

  std::map<std::tuple<RoundKey, std::int32_t, ReplicaId>, Seen> votes_;
  std::map<std::pair<RoundKey, std::int32_t>, ReducePlan> plans_;
  std::vector<RoundRecord> committed_;
};

}  // namespace

std::unique_ptr<Checker> make_equal_votes(const Checker::Context& context) {
  return std::make_unique<EqualVotes>(context);
}

}  // namespace shoal::sim
