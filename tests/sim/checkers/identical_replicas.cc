// Replicas of a stage that hold the state of the same (job, epoch, round) hold it bit for bit:
// the digests are taken here, of the vectors themselves. What the records say about anchors is
// compared with them, too: if a memory has changed, the others must have found it. In a job that
// averages in groups each replica has a state of its own, and only its record is compared.
#include <map>
#include <tuple>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

class IdenticalReplicas final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "identical_replicas"; }

  // A job that the backup does not know may give its name to another one.
  void restored(const Tables& tables, bool forgotten) override {
    std::erase_if(held_, [&](const auto& entry) {
      return forgotten || !tables.jobs.contains(std::get<RoundKey>(entry.first).job);
    });
  }

  void state_held(const StateHeld& state) override {
    if (is_tainted(state.replica)) return;
    const Pair pair{state.digests.anchor, state.digests.momentum};
    const auto [it, first] =
        held_.emplace(std::tuple(state.key, state.stage, state.own ? state.replica : ReplicaId()),
                      Held{pair, state.replica});
    if (first || it->second.pair == pair) return;
    violated(to_string(state.replica) + " and " + to_string(it->second.replica) +
             " hold different " + (it->second.pair.anchor == pair.anchor ? "momenta" : "anchors") +
             " for " + to_text(state.key));
  }

  void durable(const Record& record, const Tables&) override {
    if (const auto* round = std::get_if<coordinator::RoundRecord>(&record)) {
      if (round->state != coordinator::RoundState::kCommitted) return;
      for (std::size_t stage = 0; stage < round->reduces.size(); ++stage) {
        compare(round->key, static_cast<StageIndex>(stage), {}, round->reduces[stage].anchor);
      }
    }
    if (const auto* replica = std::get_if<coordinator::ReplicaRecord>(&record)) {
      if (replica->held_round >= 0 && !is_tainted(replica->id)) {
        const RoundKey key{replica->job, replica->epoch, replica->held_round};
        compare(key, replica->stage, {}, replica->anchor);
        compare(key, replica->stage, replica->id, replica->anchor);
      }
    }
  }

 private:
  struct Pair {
    Digest anchor, momentum;
    bool operator==(const Pair&) const = default;
  };
  struct Held {
    Pair pair;
    ReplicaId replica;
  };

  void compare(const RoundKey& key, StageIndex stage, ReplicaId owner, const Digest& anchor) {
    const auto it = held_.find({key, stage, owner});
    if (!anchor || it == held_.end() || it->second.pair.anchor == anchor) return;
    violated("the record's anchor of " + to_text(key) + " is not what replicas hold");
  }

  std::map<std::tuple<RoundKey, StageIndex, ReplicaId>, Held> held_;  // no owner: all of them
};

}  // namespace

std::unique_ptr<Checker> make_identical_replicas(const Checker::Context& context) {
  return std::make_unique<IdenticalReplicas>(context);
}

}  // namespace shoal::sim
