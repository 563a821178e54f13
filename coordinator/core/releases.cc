#include "coordinator/core/releases.h"

#include "base/check.h"
#include "coordinator/core/absence.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/checkpoints/keeping.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/recutting.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/restoring.h"
#include "coordinator/core/rounds/rounds.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/naming.h"

namespace shoal::coordinator {
namespace {

void release_all(Transaction& tx, JobId id, ReleaseReason reason) {
  std::vector<ReplicaRecord> ended;
  std::vector<ReplicaId> all = live_replicas(tx.state(), id);
  const std::vector<ReplicaId> absent = absent_replicas(tx.state(), id);
  all.insert(all.end(), absent.begin(), absent.end());
  for (const ReplicaId replica : all) {
    ended.push_back(tx.state().replicas.at(replica));
    release_replica(tx, replica, reason);
  }
  for (const ReplicaId reducer : live_reducers(tx.state(), id)) {
    release_replica(tx, reducer, reason);
  }
  for (const ReplicaRecord& replica : ended) leave_checkpoints(tx, replica);
}

std::string name_of(const CheckpointRecord* cut) {
  if (cut == nullptr) return "the initial parameters";
  return to_string(cut->id) + " of round " + std::to_string(cut->key.round);
}

// Names the replicas whose newer state the rollback gives up: they did not return in time.
std::string asked_in_vain(const Transaction& tx, JobId id) {
  const std::vector<ReplicaId> absent = absent_replicas(tx.state(), id);
  if (absent.empty()) return "";
  return "; it waited " + std::to_string(rollback_wait(tx, tx.state().jobs.at(id)).ms() / 1000) +
         " s for " + display_name(tx.state(), absent) + " in vain";
}

void say_rolled_back(Transaction& tx, JobId id, RoundNumber lost, const CheckpointRecord* cut,
                     const std::string& asked = "") {
  const JobRecord& job = tx.state().jobs.at(id);
  tx.event(
      Severity::kWarning, event_kind::kJobRolledBack, {.job = id, .round = job.committed_round},
      "round " + std::to_string(lost) +
          " is lost with the last replica of a stage; continuing from " + name_of(cut) + asked);
}

// The job had another cut when this checkpoint was stored (swarm.recut).
void take_its_cut(JobRecord& job, const CheckpointRecord& checkpoint) {
  const std::vector<UnitRange> cut = cut_of(job.spec, checkpoint);
  if (cut.empty() || cut == cut_of(job)) return;
  job.stages.clear();
  for (const UnitRange units : cut) job.stages.push_back({units, 0, {}, {}});
}

}  // namespace

void begin_epoch(Transaction& tx, JobId id) {
  end_round(tx, id);
  end_waiting(tx, id);
  ++tx.job(id).epoch;
}

void stand_at(JobRecord& job, const CheckpointRecord* cut) {
  SHOAL_CHECK(cut == nullptr || cut->key.job == job.id || !job.spec.train.continue_from.empty(),
              "the cut of another job");
  SHOAL_CHECK(cut == nullptr || cut->state == CheckpointState::kStored, "a cut that is not stored");
  job.committed_round = cut == nullptr ? 0 : cut->key.round;
  job.committed_step = cut == nullptr ? Steps() : cut->step;
  job.committed_tokens = cut == nullptr ? Tokens() : cut->tokens;
  job.recut_from = {};
  if (cut != nullptr) take_its_cut(job, *cut);
  SHOAL_CHECK(cut == nullptr || cut->parts.size() == job.stages.size(), "a cut of other stages");
  for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
    job.stages[stage].anchor = cut == nullptr ? Digest() : cut->parts.at(stage).anchor;
    job.stages[stage].momentum = cut == nullptr ? Digest() : cut->parts.at(stage).momentum;
  }
  job.next_sequence = cut == nullptr ? 0 : cut->next_sequence;
  job.returned = cut == nullptr ? std::vector<DataLease>() : cut->returned;
}

void go_forward(Transaction& tx, JobId id) {
  release_all(tx, id, ReleaseReason::kReplaced);
  begin_epoch(tx, id);
  stand_at(tx.job(id), newest_stored(tx.state(), id));
  forget_stages(tx.volatile_state().timers[id]);
}

void leave_refused_cut(Transaction& tx, JobId id) {
  if (is_recut_refused(tx.state(), tx.state().jobs.at(id))) go_forward(tx, id);
  end_recut_refusal(tx, id);
}

void roll_back(Transaction& tx, JobId id) {
  const std::string asked = asked_in_vain(tx, id);
  const RoundNumber lost = tx.state().jobs.at(id).committed_round;
  go_forward(tx, id);
  say_rolled_back(tx, id, lost, newest_stored(tx.state(), id), asked);
}

void pause_job(Transaction& tx, JobId id) {
  const std::string asked = asked_in_vain(tx, id);
  release_all(tx, id, ReleaseReason::kPaused);
  const JobRecord& job = tx.state().jobs.at(id);
  const CheckpointRecord* cut = checkpoint_of_committed(tx.state(), job);
  if (cut == nullptr) cut = newest_stored(tx.state(), id);
  const RoundNumber committed = job.committed_round;
  const bool lost = committed != (cut == nullptr ? 0 : cut->key.round);
  if (lost || current_round(tx.state(), job) != nullptr) begin_epoch(tx, id);
  stand_at(tx.job(id), cut);
  if (lost) say_rolled_back(tx, id, committed, cut, asked);
  forget_refusals(tx, id);  // its devices may be others by then
  tx.volatile_state().timers[id] = {};
  const bool by_user = job.desired == JobDesired::kPause || !is_to_let_go(job);
  const JobReason why = by_user                    ? JobReason::kPausedByUser
                        : job.yields_to != JobId() ? JobReason::kPreempted
                                                   : JobReason::kRecutting;
  tx.job(id).yields_to = JobId();
  tx.job(id).recuts = false;
  transition(tx, id, JobPhase::kPaused, why, "it continues from " + name_of(cut));
}

bool pauses_at_once(const State& state, const JobRecord& job) {
  const bool begins = job.phase == JobPhase::kQueued || job.phase == JobPhase::kGathering ||
                      job.phase == JobPhase::kWarming;
  return job.committed_round == 0 || (begins && checkpoint_of_committed(state, job) != nullptr);
}

void give_devices_up(Transaction& tx, JobId id) {
  const bool recuts = tx.state().jobs.at(id).recuts;
  pause_job(tx, id);
  if (tx.state().jobs.at(id).desired != JobDesired::kRun) return;
  queue_again(tx, id);
  // Its devices are free now, and planned for: another job could take them while it gathers.
  if (recuts) tx.volatile_state().timers[id].gathered_at = tx.now() - tx.options().gather_window;
}

void queue_again(Transaction& tx, JobId id) {
  tx.job(id).failures_in_row = 0;
  transition(tx, id, JobPhase::kQueued, JobReason::kWaitingForReplicas);
}

void finish_job(Transaction& tx, JobId id, JobPhase phase, JobReason reason, std::string detail) {
  SHOAL_CHECK(is_terminal(phase), std::string("a job does not end ") + to_string(phase));
  const ReleaseReason release = phase == JobPhase::kCompleted   ? ReleaseReason::kCompleted
                                : phase == JobPhase::kCancelled ? ReleaseReason::kCancelled
                                                                : ReleaseReason::kJobFailed;
  release_all(tx, id, release);
  forget_claims(tx, id, release);
  end_round(tx, id);
  tx.job(id).yields_to = JobId();
  tx.job(id).recuts = false;
  transition(tx, id, phase, reason, std::move(detail));
  tx.volatile_state().timers.erase(id);
  tx.volatile_state().recuts_refused.erase(id);
  look_through_soon(tx);
  forget_refusals(tx, id);  // its devices may be others by then
}

}  // namespace shoal::coordinator
