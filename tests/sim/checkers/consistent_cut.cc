// The anchors of all stages belong to one round: those of a job to its committed round, those of a
// stored checkpoint to the checkpoint's round. Which anchor belongs to which round is taken from
// the vectors that replicas of the stage really held. Where a bit had flipped in the memory of all
// of them, nobody can tell.
#include <map>
#include <set>
#include <tuple>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::CheckpointRecord;
using coordinator::CheckpointState;
using coordinator::JobRecord;

class ConsistentCut final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "consistent_cut"; }

  void state_held(const StateHeld& state) override {
    const std::tuple round{state.key.job, state.stage, state.key.round};
    if (is_tainted(state.replica)) return void(tainted_.insert(round));
    told_.insert(round);
    rounds_[{state.key.job, state.stage, state.digests.anchor}].insert(state.key.round);
  }

  void durable(const Record& record, const Tables& tables) override {
    if (const auto* job = std::get_if<JobRecord>(&record)) {
      for (std::size_t stage = 0; stage < job->stages.size(); ++stage) {
        check(to_string(job->id), job->id, stage, job->stages[stage].anchor, job->committed_round);
      }
    }
    const auto* checkpoint = std::get_if<CheckpointRecord>(&record);
    if (checkpoint == nullptr || checkpoint->state != CheckpointState::kStored) return;
    const std::string name = to_string(checkpoint->id);
    const RoundKey& key = checkpoint->key;
    if (checkpoint->parts.size() != tables.jobs.at(key.job).stages.size()) {
      violated(name + " lacks the part of a stage");
    }
    for (std::size_t stage = 0; stage < checkpoint->parts.size(); ++stage) {
      const auto& part = checkpoint->parts[stage];
      if (!part.anchor) violated(name + " has a part without anchor");
      if (part.state != CheckpointState::kStored) violated(name + " is stored without all parts");
      check(name, key.job, stage, part.anchor, key.round);
    }
  }

 private:
  void check(const std::string& who, JobId job, std::size_t stage, const Digest& anchor,
             RoundNumber round) {
    if (!anchor) return;  // the outer steps are under way
    const auto held = rounds_.find({job, static_cast<StageIndex>(stage), anchor});
    if (held != rounds_.end() && held->second.contains(round)) return;
    const bool told = told_.contains({job, static_cast<StageIndex>(stage), round});
    if (!told && tainted_.contains({job, static_cast<StageIndex>(stage), round})) {
      // It stays the anchor of that round when one comes back later that held the right one.
      return void(rounds_[{job, static_cast<StageIndex>(stage), anchor}].insert(round));
    }
    violated(who + ": the anchor of stage " + std::to_string(stage) + " is not of round " +
             std::to_string(round));
  }

  std::map<std::tuple<JobId, StageIndex, Digest>, std::set<RoundNumber>> rounds_;
  // What somebody held as it should be, and what somebody held with a flipped bit.
  std::set<std::tuple<JobId, StageIndex, RoundNumber>> told_, tainted_;
};

}  // namespace

std::unique_ptr<Checker> make_consistent_cut(const Checker::Context& context) {
  return std::make_unique<ConsistentCut>(context);
}

}  // namespace shoal::sim
