// The anchors of all stages belong to one round: those of a job to its committed round, those of a
// stored checkpoint to the checkpoint's round. The parts of a checkpoint have all units of the
// model, in their order; the job may have another cut by now (swarm.recut). Which anchor belongs to
// which round is taken from the vectors that replicas of the stage really held. Where a bit had
// flipped in the memory of all of them, nobody can tell. Them: who held the round as it was trained
// last, because that of an older epoch was another one.
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "coordinator/core/decisions/placement.h"
#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/continued.h"

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
    const RoundKey& key = state.key;
    bool& sound = sound_[{key.job, state.stage, key.round}][key.epoch];
    if (is_tainted(state.replica)) return;
    sound = true;
    rounds_[{state.key.job, state.stage, state.digests.anchor}].insert(state.key.round);
  }

  void durable(const Record& record, const Tables& tables) override {
    if (const auto* job = std::get_if<JobRecord>(&record)) {
      if (const CheckpointRecord* cut = begins_with(*job, tables)) take_over(*cut, job->id);
      for (std::size_t stage = 0; stage < job->stages.size(); ++stage) {
        const RoundKey key{job->id, job->epoch, job->committed_round};
        check(to_string(job->id), key, stage, job->stages[stage].anchor);
      }
    }
    const auto* checkpoint = std::get_if<CheckpointRecord>(&record);
    if (checkpoint == nullptr || checkpoint->state != CheckpointState::kStored) return;
    const std::string name = to_string(checkpoint->id);
    const RoundKey& key = checkpoint->key;
    if (!covers_model(checkpoint->parts, tables.jobs.at(key.job).spec)) {
      violated(name + " lacks the part of a stage");
    }
    for (std::size_t stage = 0; stage < checkpoint->parts.size(); ++stage) {
      const auto& part = checkpoint->parts[stage];
      if (!part.anchor) violated(name + " has a part without anchor");
      if (part.state != CheckpointState::kStored) violated(name + " is stored without all parts");
      check(name, key, stage, part.anchor);
    }
  }

 private:
  using Parts = std::vector<coordinator::CheckpointPart>;
  static bool covers_model(const Parts& parts, const JobSpec& spec) {
    const UnitRange model = coordinator::whole_model(spec).front();
    std::int32_t next = model.first;
    for (const coordinator::CheckpointPart& part : parts) {
      if (part.units.first != next || part.units.last <= next) return false;
      next = part.units.last;
    }
    return next == model.last;
  }

  // What it has at the beginning was held by the replicas of another job.
  void take_over(const CheckpointRecord& cut, JobId job) {
    for (std::size_t index = 0; index < cut.parts.size(); ++index) {
      const auto stage = static_cast<StageIndex>(index);
      const auto held = rounds_.find({cut.key.job, stage, cut.parts[index].anchor});
      if (held != rounds_.end()) rounds_[{job, stage, cut.parts[index].anchor}] = held->second;
    }
  }

  void check(const std::string& who, const RoundKey& key, std::size_t index, const Digest& anchor) {
    if (!anchor) return;  // the outer steps are under way
    const auto stage = static_cast<StageIndex>(index);
    const auto held = rounds_.find({key.job, stage, anchor});
    if (held != rounds_.end() && held->second.contains(key.round)) return;
    if (is_only_damaged(key, stage)) {
      // It stays the anchor of that round when one comes back later that held the right one.
      return void(rounds_[{key.job, stage, anchor}].insert(key.round));
    }
    violated(who + ": the anchor of stage " + std::to_string(stage) + " is not of round " +
             std::to_string(key.round));
  }

  // A job that continues from a round in a newer epoch has not trained it again.
  bool is_only_damaged(const RoundKey& key, StageIndex stage) const {
    const auto held = sound_.find({key.job, stage, key.round});
    if (held == sound_.end()) return false;
    const auto newer = held->second.upper_bound(key.epoch);
    return newer != held->second.begin() && !std::prev(newer)->second;
  }

  std::map<std::tuple<JobId, StageIndex, Digest>, std::set<RoundNumber>> rounds_;
  // By epoch: whether somebody held it without a flipped bit.
  std::map<std::tuple<JobId, StageIndex, RoundNumber>, std::map<std::int64_t, bool>> sound_;
};

}  // namespace

std::unique_ptr<Checker> make_consistent_cut(const Checker::Context& context) {
  return std::make_unique<ConsistentCut>(context);
}

}  // namespace shoal::sim
