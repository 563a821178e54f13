#include "coordinator/core/absence.h"

#include <algorithm>

#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/replicas/agents.h"
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

std::string explain(const Turn& turn, const JobRecord& job, StageIndex stage,
                    const std::vector<ReplicaId>& absent) {
  const std::string where = job.stages.size() == 1 ? "" : "stage " + std::to_string(stage) + ": ";
  return where + "round " + std::to_string(job.committed_round) + " is held by " +
         called(turn.state(), absent) + ", out of reach; without them within " +
         std::to_string(rollback_wait(turn, job).ms() / 1000) + " s it goes on from " +
         name_of_cut(newest_stored(turn.state(), job.id));
}

std::vector<ReplicaId> all_absent_holders(const State& state, const JobRecord& job) {
  std::vector<ReplicaId> all;
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    const std::vector<ReplicaId> here = absent_holders(state, job, stage);
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

// Of the time before this start the record knows (put_off_rollbacks).
Instant rollback_due(const Turn& turn, const JobRecord& job) {
  const Instant since =
      std::max(job.rollback_at - rollback_wait(turn, job), turn.state().booted_at);
  return turn.deadline(since, job.rollback_at - since);
}

}  // namespace

void put_off_rollbacks(Turn& turn, Duration nobody_listened) {
  for (const auto& [id, timers] : turn.state().timers) {
    const JobRecord& job = turn.state().jobs.at(id);
    if (job.rollback_at.ns == 0) continue;
    const Instant put_off = job.rollback_at + nobody_listened;
    turn.job(id).rollback_at = put_off;
  }
}

Duration rollback_wait(const Turn& turn, const JobRecord& job) {
  const CheckpointRecord* cut = newest_stored(turn.state(), job.id);
  const Instant since = cut == nullptr ? job.started_at : cut->created_at;
  const Duration at_stake = job.committed_at - since;
  const Options& options = turn.options();
  return std::min(std::max(at_stake, options.rollback_wait_min), options.rollback_wait_max);
}

bool waits_for_absent(Turn& turn, JobId id, StageIndex stage) {
  const JobRecord& job = turn.state().jobs.at(id);
  const std::vector<ReplicaId> absent = absent_holders(turn.state(), job, stage);
  if (absent.empty()) return false;
  const Duration wait = rollback_wait(turn, job);
  if (job.rollback_at.ns == 0) {
    turn.job(id).rollback_at = turn.now() + wait;
    set_reason(turn, id, JobReason::kWaitingForAbsent, explain(turn, job, stage, absent));
  }
  const Instant due = rollback_due(turn, job);
  if (turn.now() >= due) return false;
  turn.look_again(id, due);
  return true;
}

bool may_wait_for_absent(const Turn& turn, JobId id, StageIndex stage) {
  const JobRecord& job = turn.state().jobs.at(id);
  if (absent_holders(turn.state(), job, stage).empty()) return false;
  return job.rollback_at.ns == 0 || turn.now() < rollback_due(turn, job);
}

void ask_absent(Turn& turn, JobId id) {
  std::vector<ReplicaId> within_reach = all_absent_holders(turn.state(), turn.state().jobs.at(id));
  std::erase_if(within_reach,
                [&](ReplicaId replica) { return !is_within_reach(turn.state(), replica); });
  std::optional<Instant>& asked_at = turn.volatile_state().timers[id].asked_at;
  if (within_reach.empty()) return;
  if (!asked_at || turn.now() >= *asked_at + kAskEvery) {
    asked_at = turn.now();
    for (const ReplicaId replica : within_reach) catch_up(turn, replica);
  }
  turn.look_again(id, *asked_at + kAskEvery);
}

bool waited_in_vain(const Turn& turn, JobId id) {
  const JobRecord& job = turn.state().jobs.at(id);
  if (job.rollback_at.ns == 0 || turn.now() < rollback_due(turn, job)) return false;
  return std::ranges::any_of(all_absent_holders(turn.state(), job), [&](ReplicaId replica) {
    return is_within_reach(turn.state(), replica);
  });
}

bool waits_for_others(Turn& turn, JobId id) {
  const JobRecord& job = turn.state().jobs.at(id);
  if (job.rollback_at.ns == 0 || all_absent_holders(turn.state(), job).empty()) return false;
  JobTimers& timers = turn.volatile_state().timers[id];
  if (!timers.returned_at) timers.returned_at = turn.now();
  const Instant due = turn.deadline(*timers.returned_at, turn.options().return_grace);
  if (turn.now() >= due) return false;
  turn.look_again(id, due);
  return true;
}

void end_waiting(Turn& turn, JobId id) {
  turn.volatile_state().timers[id].returned_at.reset();
  if (turn.state().jobs.at(id).rollback_at.ns != 0) turn.job(id).rollback_at = {};
}

}  // namespace shoal::coordinator
