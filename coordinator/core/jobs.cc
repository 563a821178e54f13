#include "coordinator/core/jobs.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/core/absence.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/continuing.h"
#include "coordinator/core/priority.h"
#include "coordinator/core/releases.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/copies.h"
#include "coordinator/core/replicas/device_failures.h"
#include "coordinator/core/replicas/drain.h"
#include "coordinator/core/replicas/evaluation.h"
#include "coordinator/core/replicas/moving.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/replicas/profiling.h"
#include "coordinator/core/replicas/recutting.h"
#include "coordinator/core/replicas/reducers.h"
#include "coordinator/core/replicas/replanning.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/replicas/slow_joiners.h"
#include "coordinator/core/restoring.h"
#include "coordinator/core/rounds/commits.h"
#include "coordinator/core/rounds/pipeline_view.h"
#include "coordinator/core/rounds/rounds.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kPlanEvery = seconds(1);       // while a pipeline waits for devices
constexpr Duration kAskAgainAfter = seconds(30);  // who could not load a job that has trained
constexpr int kPassesMax = 32;  // of one job in one step; more means two rules undo each other

const JobRecord& job_of(const Transaction& tx, JobId id) { return tx.state().jobs.at(id); }

// ---- placement
void wake_when_rested(Transaction& tx, JobId job, const PlacementInput& input) {
  for (const FreeDevice& device : input.free) {
    const Duration rest = rest_of(tx, job_of(tx, job), {device.agent, device.device});
    if (rest > Duration()) tx.schedule_wakeup(job, tx.now() + rest);
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

// When agents refused the job, their messages say what has to be fixed. False: none refused it.
bool explain_refusal(Transaction& tx, JobId id, const std::string& what) {
  const auto refusal = first_refusal(tx.state(), id);
  if (!refusal) return false;
  const bool rests = refusal->ask_again_at.ns != 0 && live_replicas(tx.state(), id).empty();
  set_reason(tx, id, reason_of(refusal->failure),
             rests ? "no agent can load it; all are tried again every " +
                         std::to_string(kAskAgainAfter.ms() / 1000) + " s: " + refusal->detail
                   : what + "; " + refusal->detail);
  return true;
}

void explain_waiting(Transaction& tx, JobId id, const PlacementDecision& decision) {
  const bool all = decision.reason == PlacementReason::kAllRefused;
  if (explain_refusal(tx, id, all ? "every free device has refused it" : explain(decision))) {
    return;
  }
  const JobReason reason = decision.reason == PlacementReason::kNoAgents ? JobReason::kNoAgents
                           : decision.reason == PlacementReason::kNoDeviceFits
                               ? JobReason::kNoDeviceFits
                               : JobReason::kWaitingForReplicas;
  const bool all_taken = reason == JobReason::kWaitingForReplicas && decision.withheld == 0;
  if (all_taken && explain_priority(tx, id, decision.missing)) return;
  set_reason(tx, id, reason, explain(decision) + who_yields(tx.state(), id));
}

// Live replicas by stage, loading ones included.
std::vector<std::int64_t> live_by_stage(const Transaction& tx, JobId id) {
  std::vector<std::int64_t> counts(job_of(tx, id).stages.size(), 0);
  for (const ReplicaId replica : live_replicas(tx.state(), id)) {
    ++counts.at(static_cast<std::size_t>(tx.state().replicas.at(replica).stage));
  }
  return counts;
}

// The digests of new stages are known when they have loaded.
void keep_cut(Transaction& tx, JobId id, const std::vector<UnitRange>& cut) {
  if (cut_of(job_of(tx, id)) == cut) return;
  if (!job_of(tx, id).stages.empty()) begin_epoch(tx, id);
  set_cut(tx, id, cut);
}

// False: planning a whole pipeline is expensive, and the last plan was made a moment ago.
bool may_plan(Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx, id);
  const bool keeps_cut = !job.stages.empty() && !may_cut_anew(tx.state(), job);
  if (job.spec.swarm.stages == 1 || keeps_cut) return true;
  auto& planned_at = tx.volatile_state().timers[id].planned_at;
  if (planned_at && tx.now() < *planned_at + kPlanEvery) {
    tx.schedule_wakeup(id, *planned_at + kPlanEvery);
    return false;
  }
  planned_at = tx.now();
  return true;
}

// A pipeline begins with the devices of its first plan, which waits for late devices for the length
// of the window.
bool waits_for_late_devices(Transaction& tx, JobId id, const PlacementInput& input) {
  if (input.cut.size() == 1 || !input.live.empty()) return false;
  JobTimers& timers = tx.volatile_state().timers[id];
  if (!timers.gathered_at) timers.gathered_at = tx.now();
  const Instant ready = *timers.gathered_at + tx.options().gather_window;
  if (tx.now() >= ready) return false;
  tx.schedule_wakeup(id, ready);
  return true;
}

// The free devices are reserved for a pipeline that comes before this job. It waits for late
// devices, or until it may plan again. Then it takes the devices, or finds them too few.
bool waits_for_earlier_pipeline(Transaction& tx, JobId id, const PlacementInput& input) {
  if (!input.live.empty()) return false;
  for (const auto& [earlier, timers] : tx.state().timers) {
    const JobRecord& job = job_of(tx, earlier);
    if (!comes_before(job, job_of(tx, id))) continue;
    if (job.phase != JobPhase::kQueued || job.spec.swarm.stages == 1) continue;
    if (!timers.gathered_at || !job.stages.empty()) continue;
    const Instant ready = *timers.gathered_at + tx.options().gather_window;
    tx.schedule_wakeup(id, std::max(ready, tx.now() + kPlanEvery));
    return true;
  }
  return false;
}

void assign(Transaction& tx, JobId id, const std::vector<Place>& places) {
  for (const Place& place : places) {
    const auto source = choose_source(tx.state(), job_of(tx, id), place.stage);
    if (source) {
      assign_replica(tx, id, place, *source);
      continue;
    }
    const bool nobody = live_by_stage(tx, id).at(static_cast<std::size_t>(place.stage)) == 0;
    const bool pending = checkpoint_of_committed_pending(tx.state(), job_of(tx, id));
    if (nobody && !pending) {
      if (waits_for_absent(tx, id, place.stage)) continue;
      return roll_back(tx, id);  // and placed again
    }
    // Else somebody is about to become a source, or to fail; or the cut is about to be stored.
  }
}

// No agent could load it: the job fails with what the first of them said.
void fail_as_refused(Transaction& tx, JobId id) {
  const auto said = first_refusal(tx.state(), id);
  SHOAL_CHECK(said, "refused by nobody");
  const LoadRefusal refusal = *said;
  finish_job(tx, id, JobPhase::kFailed, reason_of(refusal.failure),
             "no agent could load it" + (refusal.detail.empty() ? "" : ": " + refusal.detail));
}

// A job that has trained does not fail because files are missing now: agents that could not load it
// are asked again. Meanwhile its reason says what has to be fixed.
void ask_again_later(Transaction& tx, JobId id) {
  for (auto& [who, refusal] : tx.volatile_state().refusals) {
    if (who.first != id) continue;
    if (refusal.ask_again_at.ns == 0) refusal.ask_again_at = tx.now() + kAskAgainAfter;
    if (tx.now() < refusal.ask_again_at) tx.schedule_wakeup(id, refusal.ask_again_at);
  }
}

bool is_copied(const Transaction& tx, JobId id, StageIndex stage) {
  return !copies_of_committed(tx.state(), job_of(tx, id), stage).empty();
}

// A stage that nobody serves, one without a copy first; none: all are served.
std::optional<StageIndex> lost_stage(const Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx, id);
  std::optional<StageIndex> lost;
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    if (!in_sync_replicas(tx.state(), job, stage).empty()) continue;
    if (!is_copied(tx, id, stage)) return stage;
    if (!lost) lost = stage;
  }
  return lost;
}

// Whether absent replicas hold the state that a stage needs. A device that was moved there now
// would have nothing to load, and the state of its own stage would be lost. If there is a copy, a
// free device loads that at once, but no device is moved from another stage.
bool is_waiting_for_state(const Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx, id);
  if (job.stages.empty() || checkpoint_of_committed_pending(tx.state(), job)) return false;
  const std::optional<StageIndex> lost = lost_stage(tx, id);
  if (!lost) return false;
  if (!is_copied(tx, id, *lost)) return may_wait_for_absent(tx, id, *lost);
  if (absent_in_sync_replicas(tx.state(), job, *lost).empty()) return false;
  const std::optional<Instant>& since = tx.state().timers.at(id).copied_at;
  return !since || tx.now() < tx.deadline(*since, rollback_wait(tx, job));
}

// Whether a round was committed, or an unreachable replica that the job waits for may have trained.
bool has_trained(const Transaction& tx, JobId id) {
  return job_of(tx, id).committed_round > 0 || newest_stored(tx.state(), id) != nullptr ||
         is_waiting_for_state(tx, id);
}

// The stage of a job that is to pause which only a copy has: a replica loads it, to store it.
std::optional<StageIndex> to_restore_for_pause(const Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx, id);
  if (!is_to_let_go(job) || job.phase != JobPhase::kStalled) return std::nullopt;
  const auto lost = lost_stage(tx, id);
  return lost && is_copied(tx, id, *lost) ? lost : std::nullopt;
}

void place(Transaction& tx, JobId id) {
  const JobPhase phase = job_of(tx, id).phase;
  const bool runs = !is_to_let_go(job_of(tx, id)) && phase != JobPhase::kFinalizing;
  const std::optional<StageIndex> only = to_restore_for_pause(tx, id);
  if ((!runs && !only) || !may_plan(tx, id)) return;
  if (!only && is_withheld(tx, id)) return;
  const PlacementInput input = placement_input(tx, job_of(tx, id));
  tell_not_run(tx, id);
  if (input.free.empty() && input.cut.size() == 1 && !input.live.empty()) return;
  PlacementDecision decision = decide_placement(tx, job_of(tx, id), input);
  if (input.live.empty() && input.cut.size() != 1) tx.volatile_state().planned_at = tx.now();
  if (only) std::erase_if(decision.places, [&](const Place& p) { return p.stage != *only; });
  wake_when_rested(tx, id, input);
  if (decision.places.empty()) {
    tell_unused(tx, id, input, decision);
    if (input.live.empty()) tx.volatile_state().timers[id].gathered_at.reset();
    if (decision.reason == PlacementReason::kAllRefused && input.live.empty()) {
      if (!has_trained(tx, id)) return fail_as_refused(tx, id);
      ask_again_later(tx, id);
    }
    if (phase == JobPhase::kQueued) explain_waiting(tx, id, decision);
    if (!is_waiting_for_state(tx, id)) move_in_emergency(tx, id);
    return;
  }
  if (waits_for_earlier_pipeline(tx, id, input)) return;
  const bool measures = waits_for_measurements(tx, id, input);  // meanwhile
  if (waits_for_late_devices(tx, id, input) || measures) return;
  tell_unused(tx, id, input, decision);
  keep_cut(tx, id, decision.cut);
  assign(tx, id, decision.places);
}

// ---- phases

std::int64_t count_live(const Transaction& tx, JobId id) {
  return static_cast<std::int64_t>(live_replicas(tx.state(), id).size());
}

std::int64_t fewest_live(const Transaction& tx, JobId id) {
  const auto live = live_by_stage(tx, id);
  return live.empty() ? 0 : *std::min_element(live.begin(), live.end());
}

std::int64_t count_in_sync(const Transaction& tx, JobId id) {
  return static_cast<std::int64_t>(in_sync_replicas(tx.state(), job_of(tx, id)).size());
}

// "stage 2: " of a pipeline.
std::string name_of_stage(const JobRecord& job, StageIndex stage) {
  return job.stages.size() == 1 ? "" : "stage " + std::to_string(stage) + ": ";
}

// True when no live replica of some stage holds the committed state.
bool stall_without_stage(Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx, id);
  const StageCover weakest = weakest_stage(tx.state(), job);
  if (weakest.in_sync > 0) return false;
  transition(
      tx, id, JobPhase::kStalled, JobReason::kLastReplicaLost,
      job.stages.size() == 1 ? "" : name_of_stage(job, weakest.stage) + "no replica is left");
  return true;
}

// Placed a moment ago, or absent while the job was queued and back.
void leave_queue(Transaction& tx, JobId id) {
  if (count_live(tx, id) == 0) return;
  transition(tx, id, JobPhase::kGathering, JobReason::kWaitingForReplicas);
}

void gather(Transaction& tx, JobId id) {
  const JobSpec& spec = job_of(tx, id).spec;
  JobTimers& timers = tx.volatile_state().timers[id];
  const std::int64_t live = count_live(tx, id);
  if (live == 0) return transition(tx, id, JobPhase::kQueued, JobReason::kWaitingForReplicas);
  if (fewest_live(tx, id) < spec.swarm.min_replicas) {
    timers.gathered_at.reset();
    const std::string count = std::to_string(fewest_live(tx, id)) + " of " +
                              std::to_string(spec.swarm.min_replicas) +
                              " replicas (swarm.min_replicas)";
    if (explain_refusal(tx, id, count)) return;
    return set_reason(tx, id, JobReason::kWaitingForReplicas, count + who_yields(tx.state(), id));
  }
  if (!timers.gathered_at) timers.gathered_at = tx.now();
  const Instant ready = *timers.gathered_at + tx.options().gather_window;
  const auto all = spec.swarm.max_replicas * stage_count(job_of(tx, id));
  if (tx.now() < ready && live != all) return tx.schedule_wakeup(id, ready);
  transition(tx, id, JobPhase::kWarming, JobReason::kLoading);
}

void warm(Transaction& tx, JobId id) {
  const std::int64_t live = count_live(tx, id);
  if (fewest_live(tx, id) < job_of(tx, id).spec.swarm.min_replicas) {
    return transition(tx, id, JobPhase::kGathering, JobReason::kWaitingForReplicas);
  }
  if (count_in_sync(tx, id) < live) return;  // check_load_limits ends the wait
  transition(tx, id, JobPhase::kTraining, JobReason::kRunning);
}

// A job is not called running before one of its replicas was heard since this process started.
void note_first_word(Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx, id);
  if (job.reason != JobReason::kReconnecting) return;
  const bool any = std::ranges::any_of(in_sync_replicas(tx.state(), job), [&](ReplicaId id) {
    return is_within_reach(tx.state(), id);
  });
  if (any) set_reason(tx, id, JobReason::kRunning);
}

// Too few serve this stage.
void explain_shortage(Transaction& tx, JobId id, const StageCover& weakest) {
  const JobRecord& job = job_of(tx, id);
  const std::string count = name_of_stage(job, weakest.stage) + std::to_string(weakest.in_sync) +
                            " of " + std::to_string(job.spec.swarm.min_replicas) + " replicas";
  if (explain_refusal(tx, id, count)) return;
  if (weakest.in_sync > 0) set_reason(tx, id, JobReason::kBelowMinReplicas, count);
}

void train(Transaction& tx, JobId id) {
  note_first_word(tx, id);
  const JobRecord& job = job_of(tx, id);
  if (count_in_sync(tx, id) == 0 && stall_without_stage(tx, id)) return;
  check_applied(tx, id);
  if (is_trained(job))
    return transition(tx, id, JobPhase::kFinalizing, JobReason::kFinalCheckpoint);
  const RoundRecord* round = current_round(tx.state(), job);
  if (round == nullptr && is_to_let_go(job))
    return transition(tx, id, JobPhase::kFinalizing, why_let_go(job));
  // To its end, which may be an abort.
  if (round != nullptr && round->state != RoundState::kOpen) return check_round(tx, id);
  if (stall_without_stage(tx, id)) return;
  const StageCover weakest = weakest_stage(tx.state(), job);
  if (weakest.in_sync < job.spec.swarm.min_replicas) {
    transition(tx, id, JobPhase::kStalled, JobReason::kBelowMinReplicas);
    return explain_shortage(tx, id, weakest);
  }
  check_round(tx, id);
  move_for_balance(tx, id);
}

// A replica that fetched the committed state from another one may have all of it, although it has
// not reported that yet; no checkpoint has it.
bool may_have_loaded(const Transaction& tx, JobId id, StageIndex stage) {
  const JobRecord& job = job_of(tx, id);
  return checkpoint_of_committed(tx.state(), job) == nullptr &&
         std::ranges::any_of(live_replicas(tx.state(), id), [&](ReplicaId replica) {
           const ReplicaRecord& record = tx.state().replicas.at(replica);
           return record.stage == stage && record.source.kind == SourceKind::kPeer &&
                  record.epoch == job.epoch;
         });
}

bool is_loading(const Transaction& tx, JobId id, StageIndex stage) {
  const auto live = live_by_stage(tx, id);
  return !live.empty() && live.at(static_cast<std::size_t>(stage)) > 0;
}

// A copy has the committed state of the stage, so nothing is given up, however long it takes until
// a device is free.
void wait_for_device(Transaction& tx, JobId id, StageIndex stage) {
  end_waiting(tx, id);
  std::optional<Instant>& since = tx.volatile_state().timers[id].copied_at;
  if (!since) since = tx.now();
  const JobRecord& job = job_of(tx, id);
  const Instant due = tx.deadline(*since, rollback_wait(tx, job));
  if (tx.now() < due) tx.schedule_wakeup(id, due);
  if (is_loading(tx, id, stage)) return set_reason(tx, id, JobReason::kRestoring);
  const auto copies = copies_of_committed(tx.state(), job, stage);
  const std::string count =
      name_of_stage(job, stage) + "no replica is left; the copy of round " +
      std::to_string(job.committed_round) + " at " +
      display_name(tx.state(), keeper_of(tx.state(), job, copies.front().replica)->id) +
      " waits for a device that can serve it";
  if (!explain_refusal(tx, id, count)) set_reason(tx, id, JobReason::kLastReplicaLost, count);
}

void stall_without(Transaction& tx, JobId id, StageIndex stage) {
  const JobRecord& job = job_of(tx, id);
  const bool pauses = is_to_let_go(job);
  const bool pending = checkpoint_of_committed_pending(tx.state(), job);
  if (!pending && is_copied(tx, id, stage)) return wait_for_device(tx, id, stage);
  tx.volatile_state().timers[id].copied_at.reset();
  if (!pending && waits_for_absent(tx, id, stage)) return;
  if (!pending && !pauses && waited_in_vain(tx, id)) return roll_back(tx, id);
  const bool may_arrive = pending || may_have_loaded(tx, id, stage);
  if (pauses && !may_arrive) give_devices_up(tx, id);
  if (pauses) return;
  if (is_loading(tx, id, stage)) return set_reason(tx, id, JobReason::kRestoring);
  explain_shortage(tx, id, {stage, 0});
}

void stall(Transaction& tx, JobId id) {
  check_applied(tx, id);
  ask_absent(tx, id);
  const JobRecord& job = job_of(tx, id);
  if (const auto lost = lost_stage(tx, id)) return stall_without(tx, id, *lost);
  tx.volatile_state().timers[id].copied_at.reset();
  const bool pauses = is_to_let_go(job);
  const StageCover weakest = weakest_stage(tx.state(), job);
  if (waits_for_others(tx, id)) return;
  end_waiting(tx, id);
  if (is_trained(job))
    return transition(tx, id, JobPhase::kFinalizing, JobReason::kFinalCheckpoint);
  // Its round cannot be finished, so only the committed state is kept.
  if (pauses) return transition(tx, id, JobPhase::kFinalizing, why_let_go(job));
  if (weakest.in_sync >= job.spec.swarm.min_replicas) {
    return transition(tx, id, JobPhase::kTraining, JobReason::kRunning);
  }
  explain_shortage(tx, id, weakest);
}

// An evaluation that never comes back must not hold the job forever: its evaluator is replaced.
void check_final_evaluation(Transaction& tx, JobId id, const RoundRecord& round) {
  for (const ReplicaId replica : round_replicas(tx.state(), round.key)) {
    const auto& contribution = tx.state().contributions.at({round.key, replica});
    if (contribution.eval_slice < 0 || contribution.evaluated) continue;
    const auto there = in_sync_replicas(tx.state(), job_of(tx, id), 0);
    const ReplicaId evaluator =
        is_present(tx.state(), replica) || there.empty() ? replica : there.front();
    if (!is_present(tx.state(), evaluator)) return;
    const auto limit = evaluation_deadline(tx, round, evaluator);
    if (limit && tx.now() < *limit) tx.schedule_wakeup(id, *limit);
    if (!limit || tx.now() < *limit) return;
    return fail_replica(tx, evaluator, ReplicaFailure::kUnresponsive, "it did not evaluate");
  }
}

void end_finalizing(Transaction& tx, JobId id) {
  if (is_trained(job_of(tx, id))) {
    return finish_job(tx, id, JobPhase::kCompleted, JobReason::kFinished);
  }
  give_devices_up(tx, id);
}

// A trained job waits for its final checkpoint, a pausing one for any checkpoint of its committed
// state.
void finalize_job(Transaction& tx, JobId id) {
  check_applied(tx, id);
  const JobRecord& job = job_of(tx, id);
  const RoundRecord* last = committed_round(tx.state(), job);
  const bool evaluated = last == nullptr || evaluation_complete(*last, tx.state());
  const bool final = is_trained(job);
  const bool stored = final ? final_checkpoint_stored(tx.state(), job)
                            : checkpoint_of_committed(tx.state(), job) != nullptr;
  if (stored && evaluated) return end_finalizing(tx, id);
  const bool pending = final ? final_checkpoint_pending(tx.state(), job)
                             : checkpoint_of_committed_pending(tx.state(), job);
  // A stage whose part is stored is not needed for the cut: those of the others may still arrive.
  const bool can_arrive = checkpoint_of_committed_pending(tx.state(), job);
  if (!can_arrive && stall_without_stage(tx, id)) return;
  if (!evaluated) check_final_evaluation(tx, id, *last);
  if (stored || pending || !anchors_known(job)) return;  // the last: an outer step is not taken yet
  const auto& again = tx.state().timers.at(id).checkpoint_again_at;
  if (again && tx.now() < *again) return tx.schedule_wakeup(id, *again);
  request_checkpoint(tx, id, final);
}

// Ends the wait: the awaited replicas are back, or others hold the same state. The next absence
// starts a new wait. A stalled job has its own grace for replicas that return after the first one.
void end_waiting_for_who_is_back(Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx, id);
  if (job.rollback_at.ns == 0 || job.phase == JobPhase::kStalled || job.stages.empty()) return;
  if (weakest_stage(tx.state(), job).in_sync > 0) end_waiting(tx, id);
}

// The job is to pause before it trains, and no checkpoint has its committed state, because the one
// that it began with was found damaged.
void pause_before_training(Transaction& tx, JobId id) {
  const StageCover weakest = weakest_stage(tx.state(), job_of(tx, id));
  if (weakest.in_sync > 0) {
    return transition(tx, id, JobPhase::kFinalizing, why_let_go(job_of(tx, id)));
  }
  if (may_have_loaded(tx, id, weakest.stage)) return;
  if (!waits_for_absent(tx, id, weakest.stage)) give_devices_up(tx, id);
}

bool is_beginning(JobPhase phase) {
  return phase == JobPhase::kQueued || phase == JobPhase::kGathering || phase == JobPhase::kWarming;
}

bool give_up(Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx, id);
  if (const std::string lost = lost_beginning(job); !lost.empty()) {
    finish_job(tx, id, JobPhase::kFailed, JobReason::kTooManyFailures, lost);
    return true;
  }
  if (job.failures_in_row <= tx.options().failures_in_row_max) return false;
  const JobTimers& timers = tx.volatile_state().timers[id];
  const std::string last = timers.last_failure.empty() ? "" : "; the last: " + timers.last_failure;
  finish_job(tx, id, JobPhase::kFailed, JobReason::kTooManyFailures,
             timers.hopeless.empty() ? std::to_string(job.failures_in_row) +
                                           " failures since the last committed round" + last
                                     : timers.hopeless);
  return true;
}

void advance_phase(Transaction& tx, JobId id) {
  follow_recut(tx, id);
  const JobRecord& job = job_of(tx, id);
  if (is_to_let_go(job) && is_beginning(job.phase)) return pause_before_training(tx, id);
  switch (job.phase) {
    case JobPhase::kQueued:
      return leave_queue(tx, id);
    case JobPhase::kGathering:
      return gather(tx, id);
    case JobPhase::kWarming:
      return warm(tx, id);
    case JobPhase::kTraining:
      return train(tx, id);
    case JobPhase::kStalled:
      return stall(tx, id);
    case JobPhase::kFinalizing:
      return finalize_job(tx, id);
    case JobPhase::kPaused:
    case JobPhase::kCompleted:
    case JobPhase::kCancelled:
    case JobPhase::kFailed:
      return;
  }
}

void advance_once(Transaction& tx, JobId id) {
  if (is_restoring(tx, id)) return;
  if (job_of(tx, id).phase == JobPhase::kPaused) return;  // it holds nothing and waits for nothing
  check_load_limits(tx, id);
  attend_joiners(tx, id);
  watch_joiners(tx, id);
  check_checkpoint_limits(tx, id);
  if (give_up(tx, id)) return;
  release_drained_loaders(tx, id);
  end_waiting_for_who_is_back(tx, id);
  leave_refused_cut(tx, id);
  place(tx, id);
  if (is_terminal(job_of(tx, id).phase)) return;
  place_reducers(tx, id);
  advance_phase(tx, id);
  if (is_terminal(job_of(tx, id).phase)) return;
  keep_copies(tx, id);
  refresh_view(tx, id);
}

void advance(Transaction& tx, JobId id) {
  for (int pass = 0; pass < kPassesMax; ++pass) {
    tx.volatile_state().timers[id].wakeup_at.reset();
    const std::size_t before = tx.activity();
    advance_once(tx, id);
    if (is_terminal(job_of(tx, id).phase) || tx.activity() == before) return;
  }
  SHOAL_CHECK(false, "a job does not come to rest");
}

// Handles every live job once. True: devices became free for a job that had its turn already.
bool advance_all(Transaction& tx) {
  bool let_go = false;
  for (const JobId id : jobs_in_order(tx.state())) {
    if (is_terminal(job_of(tx, id).phase)) continue;
    const bool yielded = job_of(tx, id).yields_to != JobId();
    follow_claim(tx, id);
    advance(tx, id);
    if (is_terminal(job_of(tx, id).phase)) continue;
    claim_devices(tx, id);
    let_go |= yielded && job_of(tx, id).phase == JobPhase::kQueued;
  }
  return let_go;
}

}  // namespace

void advance_jobs(Transaction& tx) {
  // A job decides on its claim once a second, so each further look follows on another claim.
  for (std::size_t more = tx.state().timers.size(); advance_all(tx) && more > 0; --more) {
  }
}

}  // namespace shoal::coordinator
