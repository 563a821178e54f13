// A rule never deletes what a job would go back to: whenever a stored checkpoint of a job that has
// not ended is deleted, one that is as new, or newer, is stored; and what a job continues that has
// not ended is kept.
#include <algorithm>
#include <map>
#include <set>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/continued.h"

namespace shoal::sim {
namespace {

using coordinator::CheckpointRecord;
using coordinator::CheckpointState;

class KeptCuts final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "kept_cuts"; }

  void restored(const Tables&, bool) override { deleted_.clear(), gone_.clear(); }

  void durable(const Record& record, const Tables& before) override {
    const auto* checkpoint = std::get_if<CheckpointRecord>(&record);
    if (checkpoint == nullptr || checkpoint->state != CheckpointState::kDeleted) return;
    const auto known = before.checkpoints.find(checkpoint->id);
    const bool stored =
        known != before.checkpoints.end() && known->second.state == CheckpointState::kStored;
    if (!stored) return;
    RoundKey& newest = deleted_[checkpoint->key.job];
    newest = std::max(newest, checkpoint->key);
    gone_.insert(checkpoint->id);
  }

  // A batch has what was deleted before what took its place.
  void written(const Tables& tables) override {
    for (const auto& [id, key] : deleted_) {
      const auto job = tables.jobs.find(id);
      if (job == tables.jobs.end() || coordinator::is_terminal(job->second.phase)) continue;
      if (!has_one_as_new(tables, key)) {
        violated("the newest stored checkpoint of " + to_string(id) + ", of " + to_text(key) +
                 ", is deleted");
      }
    }
    for (const auto& [id, job] : tables.jobs) {
      const auto cut = checkpoint_of_weights(job.spec.train.continue_from);
      if (!cut || !gone_.contains(*cut) || coordinator::is_terminal(job.phase)) continue;
      violated(to_string(*cut) + ", which " + to_string(id) + " continues, is deleted");
    }
    deleted_.clear(), gone_.clear();
  }

 private:
  static bool has_one_as_new(const Tables& tables, const RoundKey& key) {
    return std::ranges::any_of(tables.checkpoints, [&](const auto& entry) {
      const CheckpointRecord& other = entry.second;
      const bool stored = other.state == CheckpointState::kStored;
      return stored && other.key.job == key.job && !(other.key < key);
    });
  }

  std::map<JobId, RoundKey> deleted_;  // in the batch that is being written
  std::set<CheckpointId> gone_;        // in that batch
};

}  // namespace

std::unique_ptr<Checker> make_kept_cuts(const Checker::Context& context) {
  return std::make_unique<KeptCuts>(context);
}

}  // namespace shoal::sim
