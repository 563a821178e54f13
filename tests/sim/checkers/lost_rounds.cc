// No committed round is lost while it lives: a job goes back behind its newest committed round only
// when some stage of it has no trainer that holds this round and could be asked, now or soon. Who
// is out of the coordinator's reach is waited for, as long as the options say. A copy of a stage
// that another one keeps counts as a holder, unless joiners have failed to load from it again and
// again. The same of a round
// that was committed after the backup with which a coordinator starts, and then also of the newest
// checkpoint that is whole on disk.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::CheckpointRecord;
using coordinator::CheckpointState;
using coordinator::JobRecord;
using coordinator::Persist;
using coordinator::ReplicaRecord;
using coordinator::ReplicaState;

class LostRounds final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "lost_rounds"; }

  // When it is decided, not when it is durable: who lives may change in between.
  void emitted(const Emitted& e) override {
    released_now_.clear();
    for (const auto& effect : e.effects) {
      const auto* persist = std::get_if<Persist>(&effect);
      const auto* replica =
          persist == nullptr ? nullptr : std::get_if<ReplicaRecord>(&persist->record);
      if (replica != nullptr) note_end(*replica);
    }
    for (const auto& effect : e.effects) {
      const auto* persist = std::get_if<Persist>(&effect);
      const auto* job = persist == nullptr ? nullptr : std::get_if<JobRecord>(&persist->record);
      if (job != nullptr) look(*job);
    }
  }
  void coordinator_started() override { decided_ = durable_; }
  void restored(const Tables& tables, bool forgotten) override {
    const std::map<JobId, Mark> known = std::exchange(durable_, {});
    since_backup_.clear();
    on_disk_.clear();
    before_backup_ = known;
    undecided_.clear();
    for (const auto& [id, job] : tables.jobs) {
      durable_[id] = mark(job);
      undecided_.insert(id);
      const auto was = known.find(id);
      if (!forgotten && was != known.end()) since_backup_[id] = was->second;
    }
  }
  // A checkpoint of the newest history; not if the tables already have a later one.
  void on_disk(const coordinator::CheckpointRecord& found, const Tables& tables) override {
    const auto was = before_backup_.find(found.key.job);
    if (was == before_backup_.end()) return;
    const auto job = tables.jobs.find(found.key.job);
    const bool later = job != tables.jobs.end() && found.key.epoch < job->second.epoch;
    if (later || found.key.epoch != was->second.newest.epoch) return;
    RoundNumber& round = on_disk_[found.key.job];
    round = std::max(round, found.key.round);
  }
  void durable(const Record& record, const Tables&) override {
    if (const auto* job = std::get_if<JobRecord>(&record)) durable_[job->id] = mark(*job);
    if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record)) {
      if (checkpoint->state == CheckpointState::kStored) stored_.insert(checkpoint->key);
    }
  }

 private:
  struct Mark {
    RoundKey newest;
    std::size_t stages = 0;
  };
  static Mark mark(const JobRecord& job) {
    return {{job.id, job.epoch, job.committed_round}, job.stages.size()};
  }

  void look(const JobRecord& job) {
    const auto [it, first] = decided_.emplace(job.id, mark(job));
    const Mark before = std::exchange(it->second, mark(job));
    if (first || is_terminal(job.phase)) return;
    const RoundKey& here = it->second.newest;
    if (here.round < before.newest.round) {
      const bool copies_count = !undecided_.contains(job.id);
      give_up(before, here, options().coordinator.rollback_wait_min, copies_count);
    }
    if (here.epoch != before.newest.epoch) undecided_.erase(job.id);
    if (here == before.newest) return;
    const auto newer = since_backup_.find(job.id);
    if (newer != since_backup_.end()) {
      const Mark& then = newer->second;
      if (here.round < then.newest.round && !is_contradicted(then.newest))
        give_up(then, here, {}, false);
      since_backup_.erase(newer);
    }
    const auto stored = on_disk_.find(job.id);
    if (stored == on_disk_.end()) return;
    if (here.round < stored->second) {
      violated("the files of round " + std::to_string(stored->second) + " of " + to_string(job.id) +
               " are whole, and it continues from " + to_text(here));
    }
    on_disk_.erase(stored);
  }

  // What differs cannot be told from what is right; whether it fails for a reason is the business
  // of honest_agents.
  void note_end(const ReplicaRecord& replica) {
    if (replica.state == ReplicaState::kAbsent) {
      absent_since_.try_emplace(replica.id, now());
    } else if (!is_terminal(replica.state)) {  // it is released once it was waited for
      absent_since_.erase(replica.id);
    }
    const bool ended = replica.state == ReplicaState::kFailed;
    if (ended && replica.held_round < 0) ++failed_loads_[replica.source.replica];
    if (replica.state == ReplicaState::kReleased) {
      released_now_.insert(replica.id);
      let_go(replica);
    }
    if (replica.state != ReplicaState::kFailed) return;
    replica.failure == ReplicaFailure::kDigestMismatch ? void(spared_.insert(replica.id))
                                                       : let_go(replica);
  }

  // Another one of its stage held what it held: from then on that one is what keeps the round.
  void let_go(const ReplicaRecord& released) {
    released_.insert(released.id);
    const auto job = decided_.find(released.job);
    if (census() == nullptr || job == decided_.end()) return;
    for (const Census::Holder& other : census()->holders(job->second.newest)) {
      const bool keeps = other.stage == released.stage && !released_.contains(other.replica);
      if (keeps && !is_tainted(other.replica)) spared_.insert(released.id);
    }
  }

  // Waits for holders that went out of reach within the given time.
  void give_up(const Mark& what, const RoundKey& for_this, Duration waited, bool copies_count) {
    std::map<StageIndex, ReplicaId> holders = living(what, waited);
    if (copies_count) add_copies(what, waited, holders);
    if (holders.size() != what.stages) return;
    std::string who;
    for (const auto& [stage, replica] : holders) who += " " + to_string(replica);
    violated(to_text(what.newest) + " is given up for " + to_text(for_this) +
             ", and every stage of it lives:" + who);
  }

  // A database that does not know the round cannot tell who of them is right.
  bool is_contradicted(const RoundKey& key) const {
    if (census() == nullptr) return false;
    const auto all = census()->holders(key);
    return std::ranges::any_of(all, [&](const auto& holder) { return is_tainted(holder.replica); });
  }

  // A host that was within reach for a moment, too short to be heard, has been waited for all
  // along.
  bool is_asked(ReplicaId replica, Instant out_since, Duration waited) const {
    if (out_since == Instant()) return true;
    const auto absent = absent_since_.find(replica);
    const Instant since =
        absent == absent_since_.end() ? out_since : std::min(out_since, absent->second);
    return now() - since < waited;
  }

  // One holder of each stage that has any.
  std::map<StageIndex, ReplicaId> living(const Mark& what, Duration waited) const {
    std::map<StageIndex, ReplicaId> held;
    if (census() == nullptr) return held;
    for (const Census::Holder& holder : census()->holders(what.newest)) {
      const bool asked = is_asked(holder.replica, holder.out_since, waited);
      // Once a round is stored its holders may be released; they may not have heard of it.
      const bool stored = released_.contains(holder.replica) && stored_.contains(what.newest);
      const bool gone = stored || spared_.contains(holder.replica);
      if (asked && !gone && !is_tainted(holder.replica)) held.emplace(holder.stage, holder.replica);
    }
    return held;
  }

  void add_copies(const Mark& what, Duration waited, std::map<StageIndex, ReplicaId>& held) const {
    if (census() == nullptr) return;
    for (const Census::Copy& copy : census()->copies(what.newest)) {
      const bool asked = is_asked(copy.replica, copy.out_since, waited);
      const bool left = released_.contains(copy.replica) || spared_.contains(copy.replica);
      const bool gone = left && !released_now_.contains(copy.replica);
      const auto failed = failed_loads_.find(copy.copy);
      const bool useless = failed != failed_loads_.end() && failed->second >= kUselessAfter;
      if (asked && !gone && !useless) held.emplace(copy.stage, copy.copy);
    }
  }

  static constexpr int kUselessAfter = 3;  // loads

  std::map<ReplicaId, Instant> absent_since_;  // as it was decided
  std::map<ReplicaId, int> failed_loads_;      // by source
  std::set<JobId> undecided_;  // after a backup was put back only replicas say what they hold
  std::map<JobId, Mark> decided_, durable_, since_backup_, before_backup_;
  std::map<JobId, RoundNumber> on_disk_;  // of the newest checkpoint that was found
  std::set<RoundKey> stored_;
  std::set<ReplicaId> released_, released_now_;
  std::set<ReplicaId> spared_;  // no holders any more, for a reason
};

}  // namespace

std::unique_ptr<Checker> make_lost_rounds(const Checker::Context& context) {
  return std::make_unique<LostRounds>(context);
}

}  // namespace shoal::sim
