// Nobody contributes to a round on top of another state than that of the round before: the base it
// names is the one it was seen to take, and its anchor is the one that this base has everywhere, or
// in groups the replica's own.
#include <map>
#include <tuple>

#include "outer_opt/core/round/groups.h"
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

class BaseIsHeld final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "base_is_held"; }

  void restored(const Tables&, bool forgotten) override {
    if (forgotten) anchors_.clear(), held_.clear();
  }

  void state_held(const StateHeld& state) override {
    if (is_tainted(state.replica)) return;
    const ReplicaId owner = state.own ? state.replica : ReplicaId();
    anchors_.emplace(std::tuple(state.key, state.stage, owner), state.digests.anchor);
    held_[state.replica] = state.key;
  }

  void contributed(const Contributed& c) override {
    if (c.pseudo_gradient.empty() || is_tainted(c.replica)) return;
    const RoundKey& key = c.plan.key;
    const RoundKey wanted{key.job, key.epoch, key.round - 1};
    const std::string who = to_string(c.replica) + " contributes to " + to_text(key);
    if (c.base != wanted) return violated(who + " on the base " + to_text(c.base));
    const auto held = held_.find(c.replica);
    if (held == held_.end() || held->second != wanted) return violated(who + " without holding it");
    const bool own = outer_opt::averages_in_groups(c.spec.sync);
    const auto anchor = anchors_.find({wanted, c.stage, own ? c.replica : ReplicaId()});
    const bool equal = anchor != anchors_.end() && anchor->second == c.base_anchor;
    if (!equal) violated(who + " with another anchor");
  }

 private:
  std::map<std::tuple<RoundKey, StageIndex, ReplicaId>, Digest> anchors_;  // no owner: everybody
  std::map<ReplicaId, RoundKey> held_;
};

}  // namespace

std::unique_ptr<Checker> make_base_is_held(const Checker::Context& context) {
  return std::make_unique<BaseIsHeld>(context);
}

}  // namespace shoal::sim
