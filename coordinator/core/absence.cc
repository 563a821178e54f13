#include "coordinator/core/absence.h"

#include <algorithm>

#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/copies.h"
#include "coordinator/core/rounds/catch_up.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/naming.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kAskEvery = seconds(5);

std::string name_of_cut(const CheckpointRecord* cut) {
  if (cut == nullptr) return "the initial parameters";
  return to_string(cut->id) + " of round " + std::to_string(cut->key.round);
}

// The replicas that may hold the committed state of a stage that no present one holds.
struct WaitedFor {
  std::vector<ReplicaId> absent;   // replicas of the stage
  std::vector<ReplicaId> keepers;  // of copies
  bool anybody() const { return !absent.empty() || !keepers.empty(); }
};

bool is_stored(const State& state, const JobRecord& job) {
  return checkpoint_of_committed(state, job) != nullptr;
}

WaitedFor waited_for(const Transaction& tx, const JobRecord& job, StageIndex stage) {
  if (is_stored(tx.state(), job)) return {};
  return {absent_in_sync_replicas(tx.state(), job, stage), keepers_unheard(tx.state(), job, stage)};
}

std::string explain(const Transaction& tx, const JobRecord& job, StageIndex stage,
                    const WaitedFor& whom) {
  const std::string where = job.stages.size() == 1 ? "" : "stage " + std::to_string(stage) + ": ";
  const std::string held = whom.absent.empty() ? " may be held by copies at " : " is held by ";
  const std::vector<ReplicaId>& named = whom.absent.empty() ? whom.keepers : whom.absent;
  return where + "round " + std::to_string(job.committed_round) + held +
         display_name(tx.state(), named) + ", out of reach; the job waits up to " +
         std::to_string(rollback_wait(tx, job).ms() / 1000) + " s, then continues from " +
         name_of_cut(newest_stored(tx.state(), job.id));
}

std::vector<ReplicaId> all_absent_in_sync_replicas(const State& state, const JobRecord& job) {
  std::vector<ReplicaId> all;
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    const std::vector<ReplicaId> here = absent_in_sync_replicas(state, job, stage);
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

// The record includes the time waited before this start (put_off_rollbacks).
Instant rollback_due(const Transaction& tx, const JobRecord& job) {
  const Instant since = std::max(job.rollback_at - rollback_wait(tx, job), tx.state().booted_at);
  return tx.deadline(since, job.rollback_at - since);
}

}  // namespace

void put_off_rollbacks(Transaction& tx, Duration nobody_listened) {
  for (const auto& [id, timers] : tx.state().timers) {
    const JobRecord& job = tx.state().jobs.at(id);
    if (job.rollback_at.ns == 0) continue;
    const Instant put_off = job.rollback_at + nobody_listened;
    tx.job(id).rollback_at = put_off;
  }
}

Duration rollback_wait(const Transaction& tx, const JobRecord& job) {
  const CheckpointRecord* cut = newest_stored(tx.state(), job.id);
  const bool none = cut == nullptr || cut->key.job != job.id;  // that of the job it continues
  const Instant since = none ? job.started_at : cut->created_at;
  const Duration at_stake = job.committed_at - since;
  const Options& options = tx.options();
  return std::min(std::max(at_stake, options.rollback_wait_min), options.rollback_wait_max);
}

bool waits_for_absent(Transaction& tx, JobId id, StageIndex stage) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (is_stored(tx.state(), job)) end_waiting(tx, id);
  const WaitedFor whom = waited_for(tx, job, stage);
  if (!whom.anybody()) return false;
  const Duration wait = rollback_wait(tx, job);
  if (job.rollback_at.ns == 0) {
    tx.job(id).rollback_at = tx.now() + wait;
    set_reason(tx, id, JobReason::kWaitingForAbsent, explain(tx, job, stage, whom));
  }
  const Instant due = rollback_due(tx, job);
  if (tx.now() >= due) return false;
  tx.schedule_wakeup(id, due);
  return true;
}

bool may_wait_for_absent(const Transaction& tx, JobId id, StageIndex stage) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (!waited_for(tx, job, stage).anybody()) return false;
  return job.rollback_at.ns == 0 || tx.now() < rollback_due(tx, job);
}

void ask_absent(Transaction& tx, JobId id) {
  std::vector<ReplicaId> within_reach =
      all_absent_in_sync_replicas(tx.state(), tx.state().jobs.at(id));
  std::erase_if(within_reach,
                [&](ReplicaId replica) { return !is_within_reach(tx.state(), replica); });
  std::optional<Instant>& asked_at = tx.volatile_state().timers[id].asked_at;
  if (within_reach.empty()) return;
  if (!asked_at || tx.now() >= *asked_at + kAskEvery) {
    asked_at = tx.now();
    for (const ReplicaId replica : within_reach) catch_up(tx, replica);
  }
  tx.schedule_wakeup(id, *asked_at + kAskEvery);
}

bool waited_in_vain(const Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (job.rollback_at.ns == 0 || tx.now() < rollback_due(tx, job)) return false;
  return std::ranges::any_of(all_absent_in_sync_replicas(tx.state(), job), [&](ReplicaId replica) {
    return is_within_reach(tx.state(), replica);
  });
}

bool waits_for_others(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (job.rollback_at.ns == 0 || all_absent_in_sync_replicas(tx.state(), job).empty()) return false;
  JobTimers& timers = tx.volatile_state().timers[id];
  if (!timers.returned_at) timers.returned_at = tx.now();
  const Instant due = tx.deadline(*timers.returned_at, tx.options().return_grace);
  if (tx.now() >= due) return false;
  tx.schedule_wakeup(id, due);
  return true;
}

void end_waiting(Transaction& tx, JobId id) {
  tx.volatile_state().timers[id].returned_at.reset();
  if (tx.state().jobs.at(id).rollback_at.ns != 0) tx.job(id).rollback_at = {};
}

}  // namespace shoal::coordinator
