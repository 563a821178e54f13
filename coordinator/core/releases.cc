#include "coordinator/core/releases.h"

#include "base/check.h"
#include "coordinator/core/absence.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/restoring.h"
#include "coordinator/core/rounds/rounds.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/naming.h"

namespace shoal::coordinator {
namespace {

void release_all(Turn& turn, JobId id, ReleaseReason reason) {
  std::vector<ReplicaRecord> ended;
  std::vector<ReplicaId> all = live_replicas(turn.state(), id);
  const std::vector<ReplicaId> absent = absent_replicas(turn.state(), id);
  all.insert(all.end(), absent.begin(), absent.end());
  for (const ReplicaId replica : all) {
    ended.push_back(turn.state().replicas.at(replica));
    release_replica(turn, replica, reason);
  }
  for (const ReplicaId reducer : live_reducers(turn.state(), id)) {
    release_replica(turn, reducer, reason);
  }
  for (const ReplicaRecord& replica : ended) leave_checkpoints(turn, replica);
}

// What is committed is what the cut has; null: the seed.
void stand_at(JobRecord& job, const CheckpointRecord* cut) {
  SHOAL_CHECK(cut == nullptr || cut->key.job == job.id, "the cut of another job");
  SHOAL_CHECK(cut == nullptr || cut->state == CheckpointState::kStored, "a cut that is not stored");
  job.committed_round = cut == nullptr ? 0 : cut->key.round;
  job.committed_step = cut == nullptr ? Steps() : cut->step;
  job.committed_tokens = cut == nullptr ? Tokens() : cut->tokens;
  for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
    job.stages[stage].anchor = cut == nullptr ? Digest() : cut->parts.at(stage).anchor;
    job.stages[stage].momentum = cut == nullptr ? Digest() : cut->parts.at(stage).momentum;
  }
  job.next_sequence = cut == nullptr ? 0 : cut->next_sequence;
  job.returned = cut == nullptr ? std::vector<DataLease>() : cut->returned;
}

std::string name_of(const CheckpointRecord* cut) {
  if (cut == nullptr) return "the initial parameters";
  return to_string(cut->id) + " of round " + std::to_string(cut->key.round);
}

// Its rounds are history: what follows the cut is numbered anew.
void begin_lineage(Turn& turn, JobId id) {
  end_round(turn, id);
  end_waiting(turn, id);
  ++turn.job(id).lineage;
}

// Who holds what a roll-back gives up, and was asked for it in vain.
std::string asked_in_vain(const Turn& turn, JobId id) {
  const std::vector<ReplicaId> absent = absent_replicas(turn.state(), id);
  if (absent.empty()) return "";
  return "; in vain it waited " +
         std::to_string(rollback_wait(turn, turn.state().jobs.at(id)).ms() / 1000) + " s for " +
         called(turn.state(), absent);
}

void say_rolled_back(Turn& turn, JobId id, RoundNumber lost, const CheckpointRecord* cut,
                     const std::string& asked = "") {
  const JobRecord& job = turn.state().jobs.at(id);
  turn.event(
      Severity::kWarning, event_kind::kJobRolledBack, {.job = id, .round = job.committed_round},
      "round " + std::to_string(lost) +
          " is lost with the last replica of a stage; going on from " + name_of(cut) + asked);
}

}  // namespace

void go_forward(Turn& turn, JobId id) {
  release_all(turn, id, ReleaseReason::kReplaced);
  begin_lineage(turn, id);
  stand_at(turn.job(id), newest_stored(turn.state(), id));
}

void roll_back(Turn& turn, JobId id) {
  const std::string asked = asked_in_vain(turn, id);
  const RoundNumber lost = turn.state().jobs.at(id).committed_round;
  go_forward(turn, id);
  say_rolled_back(turn, id, lost, newest_stored(turn.state(), id), asked);
}

void pause_job(Turn& turn, JobId id) {
  const std::string asked = asked_in_vain(turn, id);
  release_all(turn, id, ReleaseReason::kPaused);
  const JobRecord& job = turn.state().jobs.at(id);
  const CheckpointRecord* cut = checkpoint_of_committed(turn.state(), job);
  if (cut == nullptr) cut = newest_stored(turn.state(), id);
  const RoundNumber committed = job.committed_round;
  const bool lost = committed != (cut == nullptr ? 0 : cut->key.round);
  if (lost || current_round(turn.state(), job) != nullptr) begin_lineage(turn, id);
  stand_at(turn.job(id), cut);
  if (lost) say_rolled_back(turn, id, committed, cut, asked);
  forget_refusals(turn, id);  // its devices may be others by then
  turn.volatile_state().timers[id] = {};
  transition(turn, id, JobPhase::kPaused, JobReason::kPausedByUser,
             "it goes on from " + name_of(cut));
}

void queue_again(Turn& turn, JobId id) {
  turn.job(id).failures_in_row = 0;
  transition(turn, id, JobPhase::kQueued, JobReason::kWaitingForReplicas);
}

void finish_job(Turn& turn, JobId id, JobPhase phase, JobReason reason, std::string detail) {
  SHOAL_CHECK(is_terminal(phase), std::string("a job does not end ") + to_string(phase));
  const ReleaseReason release = phase == JobPhase::kCompleted   ? ReleaseReason::kCompleted
                                : phase == JobPhase::kCancelled ? ReleaseReason::kCancelled
                                                                : ReleaseReason::kJobFailed;
  release_all(turn, id, release);
  forget_claims(turn, id, release);
  end_round(turn, id);
  transition(turn, id, phase, reason, std::move(detail));
  turn.volatile_state().timers.erase(id);
  forget_refusals(turn, id);  // its devices may be others by then
}

}  // namespace shoal::coordinator
