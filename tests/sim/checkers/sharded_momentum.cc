// Sharded outer momentum is what one process would hold that keeps all of it and follows the same
// steps, bit for bit: every replica keeps its part and its backup of the part before, unchanged by
// members that come and go; so owners and backups agree, and together they have everything. What a
// plan lets start from zero nobody living had, and an event tells of it. Anchors lose what the
// owners sent. Checkpoints hold the whole. Changed memory is left to the digests.
#include <algorithm>
#include <map>

#include "coordinator/core/records/event_kinds.h"
#include "outer_opt/core/step/nesterov.h"
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::ReplicaState;
using outer_opt::ValueRange;

class ShardedMomentum final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "sharded_momentum"; }

  void restored(const Tables&, bool forgotten) override {
    restored_ = true;
    planned_.clear();
    if (forgotten) twins_.clear(), saved_.clear(), ranges_.clear();
  }

  void momentum_kept(const MomentumKept& kept) override {
    kept.gathered_from == nullptr ? loaded(kept) : gathered(kept);
  }

  void plan_refused(ReplicaId replica, const RoundKey& key, const std::string& why) override {
    violated(to_string(replica) + " cannot follow " + to_text(key) + ": " + why);
  }

  void momentum_followed(const MomentumFollowed& f) override {
    const RoundKey& key = f.plan.key;
    const std::string who = to_string(f.replica) + " in " + to_text(key);
    for (std::size_t i = 0; i < f.anchor.size(); ++i) {
      const float wanted = f.anchor_before[i] - f.step[i];
      if (f.anchor[i] != wanted) return violated(who + " does not take the step of the owners");
    }
    if (f.shards.ranges() != outer_opt::kept_ranges(f.plan.members, f.replica)) {
      return violated(who + " keeps other ranges than its part and the one before");
    }
    std::vector<float>* twin = find(key, f.stage);
    if (twin == nullptr) twin = follow(f);
    ranges_[f.replica] = {key, f.shards.ranges()};
    if (twin == nullptr) return;
    // An owner whose memory has changed sends steps that are not those of the twin, to everybody.
    has_tainted_owner(f.plan) ? take_over(f, *twin) : compare(f.replica, key, f.shards, *twin);
  }

  void durable(const Record& record, const Tables& before) override {
    if (const auto* event = std::get_if<coordinator::EventRecord>(&record)) {
      told_ |= event->kind == coordinator::event_kind::kMomentumLost;
    }
    const auto* round = std::get_if<coordinator::RoundRecord>(&record);
    if (round == nullptr) return;
    const auto old = before.rounds.find(round->key);
    for (std::size_t stage = 0; stage < round->reduces.size(); ++stage) {
      const bool known = old != before.rounds.end() &&
                         old->second.reduces[stage].attempt == round->reduces[stage].attempt;
      if (!known) planned_.push_back({*round, static_cast<StageIndex>(stage)});
    }
  }

  void written(const Tables& tables) override {
    for (const auto& [round, stage] : planned_) check_lost(round, stage, tables);
    planned_.clear();
    told_ = false;
  }

 private:
  struct Kept {
    RoundKey key;
    std::vector<ValueRange> ranges;
  };

  std::vector<float>* find(const RoundKey& key, StageIndex stage) {
    const auto it = twins_.find({key, stage});
    return it == twins_.end() ? nullptr : &it->second;
  }

  // The first one after a rollback is the truth. A stage that is loaded again in the same epoch
  // continues from one of its checkpoints.
  void loaded(const MomentumKept& kept) {
    ranges_[kept.replica] = {kept.key, kept.shards.ranges()};
    if (kept.shards.ranges().empty()) return;
    const auto values = kept.shards.at(kept.shards.ranges().front());
    std::vector<float> whole(values.begin(), values.end());
    auto& saved = saved_[{kept.key, kept.stage}];
    const bool known = std::ranges::find(saved, whole) != saved.end();
    if (!known && find(kept.key, kept.stage) != nullptr) {
      return violated(to_string(kept.replica) + " loads another momentum of " + to_text(kept.key) +
                      " than was saved");
    }
    if (!known) saved.push_back(whole);
    twins_[{kept.key, kept.stage}] = std::move(whole);
  }

  // Nothing was loaded in this epoch: it continues from what living replicas hold.
  bool is_adopted(const RoundKey& key, StageIndex stage) const {
    return restored_ && std::ranges::none_of(twins_, [&](const auto& entry) {
             const auto& [known, of_stage] = entry.first;
             return known.job == key.job && known.epoch == key.epoch && of_stage == stage;
           });
  }

  // What a checkpoint gathers is not kept.
  void gathered(const MomentumKept& kept) {
    const std::vector<float>* twin = find(kept.key, kept.stage);
    if (twin == nullptr && is_adopted(kept.key, kept.stage)) {
      twin = find(held_by(*kept.gathered_from), kept.stage);
    }
    const auto values = static_cast<std::size_t>(kept.shards.ranges().front().count);
    std::vector<float> wanted = twin == nullptr ? std::vector<float>(values) : *twin;
    forget_lost(*kept.gathered_from, wanted);
    compare(kept.replica, kept.key, kept.shards, wanted);
    saved_[{kept.key, kept.stage}].push_back(std::move(wanted));
  }

  std::vector<float>* follow(const MomentumFollowed& f) {
    RoundKey before = f.plan.key;
    --before.round;
    if (is_adopted(before, f.stage)) before = held_by(f.plan.owner_step->holders);
    std::vector<float> twin(f.step.size());
    if (before.round > 0) {
      const std::vector<float>* known = find(before, f.stage);
      if (known == nullptr) return violated(to_text(before) + " has no momentum"), nullptr;
      twin = *known;
    }
    forget_lost(f.plan.owner_step->holders, twin);
    outer_opt::follow_step(f.plan.owner_step->outer, f.step, twin);
    return &(twins_[{f.plan.key, f.stage}] = std::move(twin));
  }

  // The round of their ranges; round 0: there are none.
  RoundKey held_by(const std::vector<MomentumHolder>& holders) const {
    for (const MomentumHolder& holder : holders) {
      const auto kept = ranges_.find(holder.replica);
      if (kept != ranges_.end()) return kept->second.key;
    }
    return {};
  }

  static std::vector<bool> covered(const std::vector<MomentumHolder>& holders, std::size_t values) {
    std::vector<bool> has(values, false);
    for (const MomentumHolder& holder : holders) {
      for (std::int64_t i = 0; i < holder.count; ++i) {
        has.at(static_cast<std::size_t>(holder.first + i)) = true;
      }
    }
    return has;
  }

  static void forget_lost(const std::vector<MomentumHolder>& holders, std::vector<float>& twin) {
    const std::vector<bool> has = covered(holders, twin.size());
    for (std::size_t i = 0; i < twin.size(); ++i) {
      if (!has[i]) twin[i] = 0;
    }
  }

  void compare(ReplicaId replica, const RoundKey& key, const outer_opt::MomentumShards& shards,
               const std::vector<float>& twin) {
    if (is_tainted(replica)) return;
    for (const ValueRange& range : shards.ranges()) {
      const auto values = shards.at(range);
      for (std::int64_t i = 0; i < range.count; ++i) {
        const float wanted = twin.at(static_cast<std::size_t>(range.first + i));
        if (values[static_cast<std::size_t>(i)] == wanted) continue;
        return violated(to_string(replica) + " keeps a wrong momentum of " + to_text(key) +
                        " at value " + std::to_string(range.first + i));
      }
    }
  }

  bool has_tainted_owner(const ReducePlan& plan) const {
    return std::ranges::any_of(plan.members, [&](const auto& member) {
      return member.part_count > 0 && is_tainted(member.replica);
    });
  }

  void take_over(const MomentumFollowed& f, std::vector<float>& twin) const {
    if (is_tainted(f.replica)) return;
    for (const ValueRange& range : f.shards.ranges()) {
      std::ranges::copy(f.shards.at(range), twin.begin() + range.first);
    }
  }

  void check_lost(const coordinator::RoundRecord& round, StageIndex stage, const Tables& tables) {
    const auto job = tables.jobs.find(round.key.job);
    const auto& reduce = round.reduces[static_cast<std::size_t>(stage)];
    const bool sharded =
        job != tables.jobs.end() && job->second.spec.sync.outer_state == OuterState::kSharded;
    if (!sharded || reduce.attempt == 0 || round.key.round < 2) return;
    const std::int64_t all = stage_of(job->second, stage).value_count;
    const std::vector<bool> has = covered(reduce.momentum_holders, static_cast<std::size_t>(all));
    const bool lost = std::find(has.begin(), has.end(), false) != has.end();
    const std::string what = to_text(round.key) + " stage " + std::to_string(stage);
    if (lost && !told_) violated(what + " loses momentum silently");
    if (lost) check_nobody_has(round.key, stage, has, tables);
  }

  void check_nobody_has(const RoundKey& key, StageIndex stage, const std::vector<bool>& has,
                        const Tables& tables) {
    for (const auto& [id, replica] : tables.replicas) {
      const auto kept = ranges_.find(id);
      const bool lives =
          replica.state == ReplicaState::kServing || replica.state == ReplicaState::kAveraging;
      const bool holds = replica.job == key.job && replica.stage == stage &&
                         replica.epoch == key.epoch && replica.held_round == key.round - 1;
      if (!lives || !holds || kept == ranges_.end()) continue;
      if (kept->second.key.round != key.round - 1) continue;
      for (const ValueRange& range : kept->second.ranges) {
        for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
          if (has[static_cast<std::size_t>(i)]) continue;
          return violated(to_text(key) + " forgets momentum that " + to_string(id) + " keeps");
        }
      }
    }
  }

  std::map<std::pair<RoundKey, StageIndex>, std::vector<float>> twins_;
  std::map<std::pair<RoundKey, StageIndex>, std::vector<std::vector<float>>> saved_;
  std::map<ReplicaId, Kept> ranges_;
  std::vector<std::pair<coordinator::RoundRecord, StageIndex>> planned_;
  bool told_ = false;
  bool restored_ = false;  // a backup was put back
};

}  // namespace

std::unique_ptr<Checker> make_sharded_momentum(const Checker::Context& context) {
  return std::make_unique<ShardedMomentum>(context);
}

}  // namespace shoal::sim
