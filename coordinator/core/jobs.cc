#include "coordinator/core/jobs.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/core/absence.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/releases.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/drain.h"
#include "coordinator/core/replicas/evaluation.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/replicas/reducers.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/replicas/slow_joiners.h"
#include "coordinator/core/restoring.h"
#include "coordinator/core/rounds/commits.h"
#include "coordinator/core/rounds/pipeline_view.h"
#include "coordinator/core/rounds/rounds.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kPlanEvery = seconds(1);       // while a pipeline waits for devices
constexpr Duration kAskAgainAfter = seconds(30);  // who could not load a job that has trained
constexpr int kPassesMax = 32;  // of one job in one step; more means two rules undo each other

const JobRecord& job_of(const Turn& turn, JobId id) { return turn.state().jobs.at(id); }

// ---- placement

void wake_when_rested(Turn& turn, JobId job, const PlacementInput& input) {
  for (const FreeDevice& device : input.free) {
    const Instant* until = turn.state().resting_until.find({device.agent, device.device});
    if (until != nullptr && turn.now() < *until) turn.look_again(job, *until);
  }
}

JobReason reason_of(ReplicaFailure refused) {
  if (refused == ReplicaFailure::kDataMissing) return JobReason::kDataMissing;
  if (refused == ReplicaFailure::kDataInvalid) return JobReason::kDataInvalid;
  return JobReason::kModelDoesNotFit;
}

// The first agent that cannot load it; none: all can, as far as is known.
std::optional<LoadRefusal> first_refusal(const State& state, JobId id) {
  for (const auto& [who, refusal] : state.refusals) {
    if (who.first == id) return refusal;
  }
  return std::nullopt;
}

// Where agents refused the job, what they said is what is to be mended. False: none did.
bool explain_refusal(Turn& turn, JobId id, const std::string& what) {
  const auto refusal = first_refusal(turn.state(), id);
  if (!refusal) return false;
  const bool rests = refusal->ask_again_at.ns != 0 && live_replicas(turn.state(), id).empty();
  set_reason(turn, id, reason_of(refusal->failure),
             rests ? "no agent can load it, all are asked again every " +
                         std::to_string(kAskAgainAfter.ms() / 1000) + " s: " + refusal->detail
                   : what + "; " + refusal->detail);
  return true;
}

void explain_waiting(Turn& turn, JobId id, const PlacementDecision& decision) {
  const bool all = decision.reason == PlacementReason::kAllRefused;
  if (explain_refusal(turn, id, all ? "every free device has refused it" : explain(decision))) {
    return;
  }
  const JobReason reason = decision.reason == PlacementReason::kNoAgents ? JobReason::kNoAgents
                           : decision.reason == PlacementReason::kNoDeviceFits
                               ? JobReason::kNoDeviceFits
                               : JobReason::kWaitingForReplicas;
  set_reason(turn, id, reason, explain(decision));
}

// Live replicas by stage, loading ones included.
std::vector<std::int64_t> live_by_stage(const Turn& turn, JobId id) {
  std::vector<std::int64_t> counts(job_of(turn, id).stages.size(), 0);
  for (const ReplicaId replica : live_replicas(turn.state(), id)) {
    ++counts.at(static_cast<std::size_t>(turn.state().replicas.at(replica).stage));
  }
  return counts;
}

// The model is cut once. The digests of its stages are known when they have loaded.
void keep_cut(Turn& turn, JobId id, const std::vector<UnitRange>& cut) {
  if (!job_of(turn, id).stages.empty()) return;
  JobRecord& job = turn.job(id);
  for (const UnitRange units : cut) {
    job.stages.push_back({.units = units, .value_count = 0, .anchor = {}, .momentum = {}});
  }
}

// False: the plan of a whole pipeline is dear, and was made a moment ago.
bool may_plan(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  if (job.spec.swarm.stages == 1 || !job.stages.empty()) return true;
  auto& planned_at = turn.volatile_state().timers[id].planned_at;
  if (planned_at && turn.now() < *planned_at + kPlanEvery) {
    turn.look_again(id, *planned_at + kPlanEvery);
    return false;
  }
  planned_at = turn.now();
  return true;
}

// A pipeline begins with the devices of its first plan; those that come within the window are in
// it.
bool waits_for_late_devices(Turn& turn, JobId id, const PlacementInput& input) {
  if (input.cut.size() == 1 || !input.live.empty()) return false;
  JobTimers& timers = turn.volatile_state().timers[id];
  if (!timers.gathered_at) timers.gathered_at = turn.now();
  const Instant ready = *timers.gathered_at + turn.options().gather_window;
  if (turn.now() >= ready) return false;
  turn.look_again(id, ready);
  return true;
}

void assign(Turn& turn, JobId id, const std::vector<Place>& places) {
  for (const Place& place : places) {
    const auto source = choose_source(turn.state(), job_of(turn, id), place.stage);
    if (source) {
      assign_replica(turn, id, place, *source);
      continue;
    }
    const bool nobody = live_by_stage(turn, id).at(static_cast<std::size_t>(place.stage)) == 0;
    const bool pending = checkpoint_of_committed_pending(turn.state(), job_of(turn, id));
    if (nobody && !pending) {
      if (waits_for_absent(turn, id, place.stage)) continue;
      return roll_back(turn, id);  // and placed anew
    }
    // Else somebody is about to become a donor, or to fail; or the cut is about to be stored.
  }
}

// No agent could load it: the job fails with what the first of them said.
void fail_as_refused(Turn& turn, JobId id) {
  const auto said = first_refusal(turn.state(), id);
  SHOAL_CHECK(said, "refused by nobody");
  const LoadRefusal refusal = *said;
  finish_job(turn, id, JobPhase::kFailed, reason_of(refusal.failure),
             "no agent could load it" + (refusal.detail.empty() ? "" : ": " + refusal.detail));
}

// What a job has trained is not thrown away for files that are missing today: whoever could not
// load it is asked again. The phases say meanwhile what is to be mended.
void ask_again_later(Turn& turn, JobId id) {
  for (auto& [who, refusal] : turn.volatile_state().refusals) {
    if (who.first != id) continue;
    if (refusal.ask_again_at.ns == 0) refusal.ask_again_at = turn.now() + kAskAgainAfter;
    if (turn.now() < refusal.ask_again_at) turn.look_again(id, refusal.ask_again_at);
  }
}

// Absent replicas hold what a stage needs. A device moved there meanwhile would have nothing to
// load, and the state that it held of its own stage would be gone.
bool is_waiting_for_state(const Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  if (job.stages.empty() || checkpoint_of_committed_pending(turn.state(), job)) return false;
  const StageCover weakest = weakest_stage(turn.state(), job);
  return weakest.holders == 0 && may_wait_for_absent(turn, id, weakest.stage);
}

// Something was committed, or somebody out of reach who is waited for may have trained.
bool has_trained(const Turn& turn, JobId id) {
  return job_of(turn, id).committed_round > 0 || newest_stored(turn.state(), id) != nullptr ||
         is_waiting_for_state(turn, id);
}

void place(Turn& turn, JobId id) {
  const JobPhase phase = job_of(turn, id).phase;
  const bool goes_on = job_of(turn, id).desired == JobDesired::kRun && phase != JobPhase::kSealing;
  if (!goes_on || !may_plan(turn, id)) return;
  const PlacementInput input = placement_input(turn, job_of(turn, id));
  const PlacementDecision decision = decide_placement(input);
  wake_when_rested(turn, id, input);
  if (decision.places.empty()) {
    if (input.live.empty()) turn.volatile_state().timers[id].gathered_at.reset();
    if (decision.reason == PlacementReason::kAllRefused && input.live.empty()) {
      if (!has_trained(turn, id)) return fail_as_refused(turn, id);
      ask_again_later(turn, id);
    }
    if (phase == JobPhase::kQueued) explain_waiting(turn, id, decision);
    if (!is_waiting_for_state(turn, id)) move_in_emergency(turn, id);
    return;
  }
  if (waits_for_late_devices(turn, id, input)) return;
  keep_cut(turn, id, decision.cut);
  assign(turn, id, decision.places);
}

// ---- phases

std::int64_t count_live(const Turn& turn, JobId id) {
  return static_cast<std::int64_t>(live_replicas(turn.state(), id).size());
}

// Of the stage that has the fewest live replicas.
std::int64_t fewest_live(const Turn& turn, JobId id) {
  const auto live = live_by_stage(turn, id);
  return live.empty() ? 0 : *std::min_element(live.begin(), live.end());
}

std::int64_t count_holders(const Turn& turn, JobId id) {
  return static_cast<std::int64_t>(holders(turn.state(), job_of(turn, id)).size());
}

// "stage 2: " of a pipeline.
std::string name_of_stage(const JobRecord& job, StageIndex stage) {
  return job.stages.size() == 1 ? "" : "stage " + std::to_string(stage) + ": ";
}

// True when some stage has nobody left who holds the committed state.
bool stall_without_stage(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  const StageCover weakest = weakest_stage(turn.state(), job);
  if (weakest.holders > 0) return false;
  transition(
      turn, id, JobPhase::kStalled, JobReason::kLastReplicaLost,
      job.stages.size() == 1 ? "" : name_of_stage(job, weakest.stage) + "no replica is left");
  return true;
}

// Placed a moment ago, or absent while the job was queued and back.
void leave_queue(Turn& turn, JobId id) {
  if (count_live(turn, id) == 0) return;
  transition(turn, id, JobPhase::kGathering, JobReason::kWaitingForReplicas);
}

void gather(Turn& turn, JobId id) {
  const JobSpec& spec = job_of(turn, id).spec;
  JobTimers& timers = turn.volatile_state().timers[id];
  const std::int64_t live = count_live(turn, id);
  if (live == 0) return transition(turn, id, JobPhase::kQueued, JobReason::kWaitingForReplicas);
  if (fewest_live(turn, id) < spec.swarm.min_replicas) {
    timers.gathered_at.reset();
    const std::string count = std::to_string(fewest_live(turn, id)) + " of " +
                              std::to_string(spec.swarm.min_replicas) +
                              " replicas (swarm.min_replicas)";
    if (explain_refusal(turn, id, count)) return;
    return set_reason(turn, id, JobReason::kWaitingForReplicas, count);
  }
  if (!timers.gathered_at) timers.gathered_at = turn.now();
  const Instant ready = *timers.gathered_at + turn.options().gather_window;
  const auto all = spec.swarm.max_replicas * stage_count(job_of(turn, id));
  if (turn.now() < ready && live != all) return turn.look_again(id, ready);
  transition(turn, id, JobPhase::kWarming, JobReason::kLoading);
}

void warm(Turn& turn, JobId id) {
  const std::int64_t live = count_live(turn, id);
  if (fewest_live(turn, id) < job_of(turn, id).spec.swarm.min_replicas) {
    return transition(turn, id, JobPhase::kGathering, JobReason::kWaitingForReplicas);
  }
  if (count_holders(turn, id) < live) return;  // check_load_limits ends the wait
  transition(turn, id, JobPhase::kTraining, JobReason::kRunning);
}

// A job is not called running while nobody has spoken since the start of this process.
void note_first_word(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  if (job.reason != JobReason::kReconnecting) return;
  const bool any = std::ranges::any_of(
      holders(turn.state(), job), [&](ReplicaId id) { return is_within_reach(turn.state(), id); });
  if (any) set_reason(turn, id, JobReason::kRunning);
}

// Too few serve this stage.
void explain_shortage(Turn& turn, JobId id, const StageCover& weakest) {
  const JobRecord& job = job_of(turn, id);
  const std::string count = name_of_stage(job, weakest.stage) + std::to_string(weakest.holders) +
                            " of " + std::to_string(job.spec.swarm.min_replicas) + " replicas";
  if (explain_refusal(turn, id, count)) return;
  if (weakest.holders > 0) set_reason(turn, id, JobReason::kBelowMinReplicas, count);
}

void train(Turn& turn, JobId id) {
  note_first_word(turn, id);
  const JobRecord& job = job_of(turn, id);
  if (count_holders(turn, id) == 0 && stall_without_stage(turn, id)) return;
  check_applied(turn, id);
  if (is_trained(job)) {
    return transition(turn, id, JobPhase::kSealing, JobReason::kFinalCheckpoint);
  }
  const RoundRecord* round = current_round(turn.state(), job);
  if (round == nullptr && job.desired == JobDesired::kPause) {
    return transition(turn, id, JobPhase::kSealing, JobReason::kPausing);
  }
  const bool reducing = round != nullptr && round->state != RoundState::kOpen;
  if (reducing) return check_round(turn, id);  // to its end, which may be an abort
  if (stall_without_stage(turn, id)) return;
  const StageCover weakest = weakest_stage(turn.state(), job);
  if (weakest.holders < job.spec.swarm.min_replicas) {
    transition(turn, id, JobPhase::kStalled, JobReason::kBelowMinReplicas);
    return explain_shortage(turn, id, weakest);
  }
  check_round(turn, id);
  move_for_balance(turn, id);
}

// Somebody who took the committed state from another replica may have all of it, and has yet to say
// so; no checkpoint has it.
bool may_have_loaded(const Turn& turn, JobId id, StageIndex stage) {
  const JobRecord& job = job_of(turn, id);
  return checkpoint_of_committed(turn.state(), job) == nullptr &&
         std::ranges::any_of(live_replicas(turn.state(), id), [&](ReplicaId replica) {
           const ReplicaRecord& record = turn.state().replicas.at(replica);
           return record.stage == stage && record.source.kind == SourceKind::kPeer &&
                  record.lineage == job.lineage;
         });
}

void stall(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  const StageCover weakest = weakest_stage(turn.state(), job);
  check_applied(turn, id);
  ask_absent(turn, id);
  const bool pauses = job.desired == JobDesired::kPause;
  if (weakest.holders == 0) {
    const bool pending = checkpoint_of_committed_pending(turn.state(), job);
    if (!pending && waits_for_absent(turn, id, weakest.stage)) return;
    if (!pending && !pauses && waited_in_vain(turn, id)) return roll_back(turn, id);
    const bool may_arrive = pending || may_have_loaded(turn, id, weakest.stage);
    if (pauses && !may_arrive) pause_job(turn, id);
    if (pauses) return;
    const auto live = live_by_stage(turn, id);
    const bool loading = !live.empty() && live.at(static_cast<std::size_t>(weakest.stage)) > 0;
    if (loading) return set_reason(turn, id, JobReason::kRestoring);
    return explain_shortage(turn, id, weakest);
  }
  if (waits_for_others(turn, id)) return;
  end_waiting(turn, id);
  if (is_trained(job)) {
    return transition(turn, id, JobPhase::kSealing, JobReason::kFinalCheckpoint);
  }
  // Its round cannot be finished: what was committed is what there is to keep.
  if (pauses) return transition(turn, id, JobPhase::kSealing, JobReason::kPausing);
  if (weakest.holders >= job.spec.swarm.min_replicas) {
    return transition(turn, id, JobPhase::kTraining, JobReason::kRunning);
  }
  explain_shortage(turn, id, weakest);
}

// An evaluation that never comes back must not hold the job for ever: its evaluator is replaced.
void check_final_evaluation(Turn& turn, JobId id, const RoundRecord& round) {
  for (const ReplicaId replica : round_replicas(turn.state(), round.key)) {
    const auto& contribution = turn.state().contributions.at({round.key, replica});
    if (contribution.eval_slice < 0 || contribution.evaluated) continue;
    const auto there = holders(turn.state(), job_of(turn, id), 0);
    const ReplicaId frozen =
        is_present(turn.state(), replica) || there.empty() ? replica : there.front();
    if (!is_present(turn.state(), frozen)) return;
    const auto limit = evaluation_deadline(turn, round, frozen);
    if (limit && turn.now() < *limit) turn.look_again(id, *limit);
    if (!limit || turn.now() < *limit) return;
    return fail_replica(turn, frozen, ReplicaFailure::kFrozen, "it did not evaluate");
  }
}

void end_sealing(Turn& turn, JobId id) {
  if (is_trained(job_of(turn, id))) {
    return finish_job(turn, id, JobPhase::kCompleted, JobReason::kFinished);
  }
  pause_job(turn, id);
  if (job_of(turn, id).desired == JobDesired::kRun) queue_again(turn, id);
}

// Of a job that is trained, its final checkpoint; of one that is to pause, any of its committed
// state.
void seal_job(Turn& turn, JobId id) {
  check_applied(turn, id);
  const JobRecord& job = job_of(turn, id);
  const RoundRecord* last = committed_round(turn.state(), job);
  const bool evaluated = last == nullptr || evaluation_complete(*last, turn.state());
  const bool final = is_trained(job);
  const bool stored = final ? final_checkpoint_stored(turn.state(), job)
                            : checkpoint_of_committed(turn.state(), job) != nullptr;
  if (stored && evaluated) return end_sealing(turn, id);
  const bool pending = final ? final_checkpoint_pending(turn.state(), job)
                             : checkpoint_of_committed_pending(turn.state(), job);
  // A stage whose part is stored is not needed for the cut: those of the others may still arrive.
  const bool can_arrive = checkpoint_of_committed_pending(turn.state(), job);
  if (!can_arrive && stall_without_stage(turn, id)) return;
  if (!evaluated) check_final_evaluation(turn, id, *last);
  const bool known = anchors_known(job);  // every outer step was taken
  if (stored || pending || !known) return;
  const auto& again = turn.state().timers.at(id).checkpoint_again_at;
  if (again && turn.now() < *again) return turn.look_again(id, *again);
  request_checkpoint(turn, id, final);
}

// Who was waited for is back, or another one holds what they held: the next absence is waited for
// anew. A stalled job has its own grace for those that come after the first.
void end_waiting_for_who_is_back(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  if (job.rollback_at.ns == 0 || job.phase == JobPhase::kStalled || job.stages.empty()) return;
  if (weakest_stage(turn.state(), job).holders > 0) end_waiting(turn, id);
}

// It is to pause before it trains, and what it committed stands in no checkpoint: the one that it
// began with was found damaged.
void pause_before_training(Turn& turn, JobId id) {
  const StageCover weakest = weakest_stage(turn.state(), job_of(turn, id));
  if (weakest.holders > 0) {
    return transition(turn, id, JobPhase::kSealing, JobReason::kPausing);
  }
  if (may_have_loaded(turn, id, weakest.stage)) return;
  if (!waits_for_absent(turn, id, weakest.stage)) pause_job(turn, id);
}

bool is_beginning(JobPhase phase) {
  return phase == JobPhase::kQueued || phase == JobPhase::kGathering || phase == JobPhase::kWarming;
}

bool give_up(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  if (job.failures_in_row <= turn.options().failures_in_row_max) return false;
  finish_job(turn, id, JobPhase::kFailed, JobReason::kTooManyFailures,
             std::to_string(job.failures_in_row) + " failures since the last committed round");
  return true;
}

void advance_phase(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  if (job.desired == JobDesired::kPause && is_beginning(job.phase)) {
    return pause_before_training(turn, id);
  }
  switch (job_of(turn, id).phase) {
    case JobPhase::kQueued:
      return leave_queue(turn, id);
    case JobPhase::kGathering:
      return gather(turn, id);
    case JobPhase::kWarming:
      return warm(turn, id);
    case JobPhase::kTraining:
      return train(turn, id);
    case JobPhase::kStalled:
      return stall(turn, id);
    case JobPhase::kSealing:
      return seal_job(turn, id);
    case JobPhase::kPaused:
    case JobPhase::kCompleted:
    case JobPhase::kCancelled:
    case JobPhase::kFailed:
      return;
  }
}

void advance_once(Turn& turn, JobId id) {
  if (is_restoring(turn, id)) return;
  if (job_of(turn, id).phase == JobPhase::kPaused)
    return;  // it holds nothing and waits for nothing
  check_load_limits(turn, id);
  attend_joiners(turn, id);
  watch_joiners(turn, id);
  check_checkpoint_limits(turn, id);
  if (give_up(turn, id)) return;
  release_drained_loaders(turn, id);
  end_waiting_for_who_is_back(turn, id);
  place(turn, id);
  if (is_terminal(job_of(turn, id).phase)) return;
  place_reducers(turn, id);
  advance_phase(turn, id);
  if (!is_terminal(job_of(turn, id).phase)) refresh_view(turn, id);
}

void advance(Turn& turn, JobId id) {
  for (int pass = 0; pass < kPassesMax; ++pass) {
    turn.volatile_state().timers[id].look_again_at.reset();
    const std::size_t before = turn.activity();
    advance_once(turn, id);
    if (is_terminal(job_of(turn, id).phase) || turn.activity() == before) return;
  }
  SHOAL_CHECK(false, "a job does not come to rest");
}

}  // namespace

void advance_jobs(Turn& turn) {
  std::vector<JobId> live;
  for (const auto& [id, timers] : turn.state().timers) live.push_back(id);
  for (const JobId id : live) {
    if (!is_terminal(job_of(turn, id).phase)) advance(turn, id);
  }
}

}  // namespace shoal::coordinator
