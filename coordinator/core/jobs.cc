#include "coordinator/core/jobs.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/core/checkpoints.h"
#include "coordinator/core/drain.h"
#include "coordinator/core/event_kinds.h"
#include "coordinator/core/machines.h"
#include "coordinator/core/placement.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/rounds.h"

namespace shoal::coordinator {
namespace {

constexpr int kPassesMax = 32;  // of one job in one step; more means two rules undo each other

const JobRecord& job_of(const Turn& turn, JobId id) { return turn.state().jobs.at(id); }

// ---- placement

bool device_is_taken(const State& state, AgentId agent, std::int32_t device) {
  return std::any_of(state.replicas.begin(), state.replicas.end(), [&](const auto& entry) {
    return entry.second.agent == agent && entry.second.device == device;
  });
}

std::string domain_of(const AgentRecord& agent) {
  for (const auto& [key, value] : agent.labels) {
    if (key == "region") return value;
  }
  return agent.host;
}

PlacedReplica placed_replica(const State& state, const ReplicaRecord& replica) {
  PlacedReplica placed{.id = replica.id, .stage = replica.stage};
  placed.loading = replica.held_round < 0;
  placed.leaving = is_leaving(state, replica);
  for (const Device& device : state.agents.at(replica.agent).devices) {
    if (device.index != replica.device) continue;
    placed.memory = device.memory;
    placed.gflops = device.gflops;
  }
  return placed;
}

PlacementInput placement_input(const Turn& turn, const JobRecord& job) {
  const State& state = turn.state();
  PlacementInput input;
  input.spec = job.spec;
  input.bytes_per_s = turn.options().reduce_bytes_per_s;
  if (job.spec.swarm.stages == 1) input.cut = whole_model(job.spec);
  for (const ReplicaId id : live_replicas(state, job.id)) {
    input.live.push_back(placed_replica(state, state.replicas.at(id)));
  }
  for (const auto& [id, presence] : state.presence) {
    const AgentRecord& agent = state.agents.at(id);
    if (agent.state == AgentState::kGone || agent.state == AgentState::kDraining) continue;
    if (agent.cordoned) continue;
    for (const Device& device : agent.devices) {
      ++input.devices_known;
      if (!presence.connected || device_is_taken(state, id, device.index)) continue;
      const Instant* rest = state.resting_until.find({id, device.index});
      input.free.push_back({id, device.index, device.memory, device.gflops, domain_of(agent),
                            state.refusals.contains({job.id, id}),
                            rest != nullptr && turn.now() < *rest});
    }
  }
  return input;
}

void wake_when_rested(Turn& turn, JobId job, const PlacementInput& input) {
  for (const FreeDevice& device : input.free) {
    if (!device.resting) continue;
    look_again(turn, job, turn.state().resting_until.at({device.agent, device.device}));
  }
}

JobReason reason_of_refusal(const State& state, JobId job) {
  for (const auto& [key, failure] : state.refusals) {
    if (key.first != job) continue;
    if (failure == ReplicaFailure::kDataMissing) return JobReason::kDataMissing;
    if (failure == ReplicaFailure::kDataInvalid) return JobReason::kDataInvalid;
    return JobReason::kModelDoesNotFit;
  }
  return JobReason::kTooManyFailures;
}

void explain_waiting(Turn& turn, JobId id, const PlacementDecision& decision) {
  const JobReason reason = decision.reason == PlacementReason::kNoAgents ? JobReason::kNoAgents
                           : decision.reason == PlacementReason::kNoDeviceFits
                               ? JobReason::kNoDeviceFits
                               : JobReason::kWaitingForReplicas;
  set_reason(turn, id, reason, explain(decision));
}

// No live replica holds the committed state and no checkpoint of exactly that round exists: back to
// the newest consistent cut, which may be the seed.
void roll_back(Turn& turn, JobId id) {
  end_round(turn, id);
  const CheckpointRecord* cut = newest_stored(turn.state(), id);
  JobRecord& job = turn.job(id);
  const RoundNumber lost = job.committed_round;
  ++job.lineage;
  job.committed_round = cut == nullptr ? 0 : cut->key.round;
  job.committed_step = cut == nullptr ? Steps() : cut->step;
  job.committed_tokens = cut == nullptr ? Tokens() : cut->tokens;
  job.anchor = cut == nullptr ? Digest() : cut->anchor;
  job.momentum = cut == nullptr ? Digest() : cut->momentum;
  job.next_sequence = cut == nullptr ? 0 : cut->next_sequence;
  job.returned = cut == nullptr ? std::vector<DataLease>() : cut->returned;
  turn.event(
      Severity::kWarning, event_kind::kJobRolledBack, {.job = id, .round = job.committed_round},
      "every replica of round " + std::to_string(lost) + " is lost; going on from " +
          (cut == nullptr ? std::string("the initial parameters")
                          : to_string(cut->id) + " of round " + std::to_string(cut->key.round)));
}

void finish_job(Turn& turn, JobId id, JobPhase phase, JobReason reason, std::string detail = {}) {
  const ReleaseReason release = phase == JobPhase::kCompleted   ? ReleaseReason::kCompleted
                                : phase == JobPhase::kCancelled ? ReleaseReason::kCancelled
                                                                : ReleaseReason::kJobFailed;
  for (const ReplicaId replica : live_replicas(turn.state(), id)) {
    const ReplicaRecord ended = turn.state().replicas.at(replica);
    release_replica(turn, replica, release);
    leave_checkpoints(turn, ended);
  }
  end_round(turn, id);
  transition(turn, id, phase, reason, std::move(detail));
  State& state = turn.volatile_state();
  state.timers.erase(id);
  std::vector<std::pair<JobId, AgentId>> refused;
  for (const auto& [key, failure] : state.refusals) {
    if (key.first == id) refused.push_back(key);
  }
  for (const auto& key : refused) state.refusals.erase(key);
}

void place(Turn& turn, JobId id) {
  const JobPhase phase = job_of(turn, id).phase;
  if (phase == JobPhase::kSealing || phase == JobPhase::kPaused) return;
  const PlacementInput input = placement_input(turn, job_of(turn, id));
  const PlacementDecision decision = decide_placement(input);
  wake_when_rested(turn, id, input);
  if (decision.places.empty()) {
    if (decision.reason == PlacementReason::kAllRefused && input.live.empty()) {
      return finish_job(turn, id, JobPhase::kFailed, reason_of_refusal(turn.state(), id),
                        "no agent could load it; the events say why");
    }
    if (phase == JobPhase::kQueued) explain_waiting(turn, id, decision);
    return;
  }
  if (!choose_source(turn.state(), job_of(turn, id))) {
    if (!input.live.empty()) return;  // somebody is about to become a donor, or to fail
    roll_back(turn, id);
  }
  for (const Place& spot : decision.places) {
    assign_replica(turn, id, spot, *choose_source(turn.state(), job_of(turn, id)));
  }
  if (phase == JobPhase::kQueued) {
    transition(turn, id, JobPhase::kGathering, JobReason::kWaitingForReplicas);
  }
}

// ---- phases

std::int64_t count_live(const Turn& turn, JobId id) {
  return static_cast<std::int64_t>(live_replicas(turn.state(), id).size());
}

std::int64_t count_holders(const Turn& turn, JobId id) {
  return static_cast<std::int64_t>(holders(turn.state(), job_of(turn, id)).size());
}

void gather(Turn& turn, JobId id) {
  const JobSpec& spec = job_of(turn, id).spec;
  JobTimers& timers = turn.volatile_state().timers[id];
  const std::int64_t live = count_live(turn, id);
  if (live == 0) return transition(turn, id, JobPhase::kQueued, JobReason::kWaitingForReplicas);
  if (live < spec.swarm.min_replicas) {
    timers.gathered_at.reset();
    return set_reason(turn, id, JobReason::kWaitingForReplicas,
                      std::to_string(live) + " of " + std::to_string(spec.swarm.min_replicas) +
                          " replicas (swarm.min_replicas)");
  }
  if (!timers.gathered_at) timers.gathered_at = turn.now();
  const Instant ready = *timers.gathered_at + turn.options().gather_window;
  if (turn.now() < ready && live != spec.swarm.max_replicas) return look_again(turn, id, ready);
  transition(turn, id, JobPhase::kWarming, JobReason::kLoading);
}

void warm(Turn& turn, JobId id) {
  const std::int64_t live = count_live(turn, id);
  if (live < job_of(turn, id).spec.swarm.min_replicas) {
    return transition(turn, id, JobPhase::kGathering, JobReason::kWaitingForReplicas);
  }
  if (count_holders(turn, id) < live) return;  // check_load_limits ends the wait
  transition(turn, id, JobPhase::kTraining, JobReason::kRunning);
}

void train(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  const std::int64_t there = count_holders(turn, id);
  if (there == 0) return transition(turn, id, JobPhase::kStalled, JobReason::kLastReplicaLost);
  check_applied(turn, id);
  if (job.committed_step >= job.spec.train.steps) {
    return transition(turn, id, JobPhase::kSealing, JobReason::kFinalCheckpoint);
  }
  const RoundRecord* round = current_round(turn.state(), job);
  const bool reducing = round != nullptr && round->state != RoundState::kOpen;
  if (there < job.spec.swarm.min_replicas && !reducing) {
    return transition(
        turn, id, JobPhase::kStalled, JobReason::kBelowMinReplicas,
        std::to_string(there) + " of " + std::to_string(job.spec.swarm.min_replicas) + " replicas");
  }
  check_round(turn, id);
}

void stall(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  const std::int64_t there = count_holders(turn, id);
  check_applied(turn, id);
  if (there == 0) {
    if (count_live(turn, id) > 0) set_reason(turn, id, JobReason::kRestoring);
    return;
  }
  if (job.committed_step >= job.spec.train.steps) {
    return transition(turn, id, JobPhase::kSealing, JobReason::kFinalCheckpoint);
  }
  if (there >= job.spec.swarm.min_replicas) {
    transition(turn, id, JobPhase::kTraining, JobReason::kRunning);
  }
}

// An evaluation that never comes back must not hold the job for ever: its evaluator is replaced.
void check_final_evaluation(Turn& turn, JobId id, const RoundRecord& round) {
  const Instant limit = round.committed_at + turn.options().checkpoint_limit;
  if (turn.now() < limit) return look_again(turn, id, limit);
  for (const ReplicaId replica : round_replicas(turn.state(), round.key)) {
    const auto& contribution = turn.state().contributions.at({round.key, replica});
    if (contribution.eval_slice < 0 || contribution.evaluated) continue;
    const auto there = holders(turn.state(), job_of(turn, id));
    const ReplicaId frozen =
        is_live(turn.state(), replica) || there.empty() ? replica : there.front();
    if (!is_live(turn.state(), frozen)) return;
    return fail_replica(turn, frozen, ReplicaFailure::kFrozen, "it did not evaluate in time");
  }
}

void seal_job(Turn& turn, JobId id) {
  check_applied(turn, id);
  const JobRecord& job = job_of(turn, id);
  const RoundRecord* last = committed_round(turn.state(), job);
  const bool evaluated = last == nullptr || evaluation_complete(*last, turn.state());
  if (final_checkpoint_stored(turn.state(), job) && evaluated) {
    return finish_job(turn, id, JobPhase::kCompleted, JobReason::kFinished);
  }
  if (count_holders(turn, id) == 0) {
    return transition(turn, id, JobPhase::kStalled, JobReason::kLastReplicaLost);
  }
  if (!evaluated) check_final_evaluation(turn, id, *last);
  const bool known = static_cast<bool>(job.anchor);  // every outer step was taken
  if (known && !final_checkpoint_stored(turn.state(), job) &&
      !final_checkpoint_pending(turn.state(), job)) {
    request_checkpoint(turn, id, true);
  }
}

bool give_up(Turn& turn, JobId id) {
  const JobRecord& job = job_of(turn, id);
  if (job.failures_in_row <= turn.options().failures_in_row_max) return false;
  finish_job(turn, id, JobPhase::kFailed, JobReason::kTooManyFailures,
             std::to_string(job.failures_in_row) + " failures since the last committed round");
  return true;
}

void advance_once(Turn& turn, JobId id) {
  check_load_limits(turn, id);
  check_checkpoint_limits(turn, id);
  if (give_up(turn, id)) return;
  release_drained(turn, id);
  place(turn, id);
  switch (job_of(turn, id).phase) {
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
    case JobPhase::kQueued:
    case JobPhase::kPaused:
    case JobPhase::kCompleted:
    case JobPhase::kCancelled:
    case JobPhase::kFailed:
      return;
  }
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

// ---- commands

// What placement would say if every known device were free.
PlacementDecision on_every_device(const Turn& turn, const JobSpec& spec) {
  PlacementInput input = placement_input(turn, JobRecord{.spec = spec});
  input.free.clear();
  for (const auto& [id, agent] : turn.state().agents) {
    if (agent.state == AgentState::kGone) continue;
    for (const Device& device : agent.devices) {
      input.free.push_back({id, device.index, device.memory, device.gflops, domain_of(agent)});
    }
  }
  input.devices_known = static_cast<std::int64_t>(input.free.size());
  return decide_placement(input);
}

// Empty when the known devices could train it, or when they would with more of them.
std::string why_no_device_fits(const Turn& turn, const JobSpec& spec) {
  const PlacementDecision decision = on_every_device(turn, spec);
  if (decision.reason != PlacementReason::kNoDeviceFits) return {};
  return explain(decision) +
         "; use fewer layers, a smaller hidden size, a smaller train.microbatch or more "
         "swarm.stages";
}

// What would be placed now. One stage may begin to gather with less, but not to train.
PlacementDecision plan_of(const Turn& turn, const JobSpec& spec) {
  PlacementDecision decision = decide_placement(placement_input(turn, JobRecord{.spec = spec}));
  if (decision.missing > 0 && decision.reason == PlacementReason::kPlaced) {
    decision.reason = PlacementReason::kTooFewDevices;
  }
  return decision;
}

}  // namespace

void on_submit(Turn& turn, const SubmitJob& command) {
  auto fields = validate(command.spec);
  if (fields.empty() && !command.dry_run) {
    const std::string why = why_no_device_fits(turn, with_derived_fields(command.spec));
    if (!why.empty()) fields.push_back({"/model", why});
  }
  if (!fields.empty()) {
    const Error error{Code::kValidation, "the job is not accepted", fields.front().pointer, ""};
    return turn.reply(command.request, error, std::move(fields));
  }
  if (const JobRecord* other = live_job_by_name(turn.state(), command.spec.name)) {
    return turn.reply(command.request,
                      Error{Code::kConflict,
                            "job " + to_string(other->id) + " named " + command.spec.name +
                                " is still " + to_string(other->phase),
                            "/name", "choose another name, or cancel that job first"});
  }
  if (static_cast<std::int64_t>(turn.state().timers.size()) >= turn.options().jobs_max) {
    return turn.reply(command.request, Error{Code::kResourceExhausted, "too many live jobs", "",
                                             "wait for one to end, or cancel one"});
  }
  if (command.dry_run) {
    return turn.reply_plan(command.request, plan_of(turn, with_derived_fields(command.spec)));
  }

  JobRecord record;
  record.id = JobId(turn.counters().next_job++);
  record.spec = with_derived_fields(command.spec);
  record.created_at = turn.now();
  const JobId id = turn.add(std::move(record)).id;
  turn.volatile_state().timers.put(id, {});
  turn.event(Severity::kInfo, event_kind::kJobSubmitted, {.job = id},
             "job " + command.spec.name + " submitted as " + to_string(id));
  turn.reply(command.request, id);
}

void on_cancel(Turn& turn, const CancelJob& command) {
  const JobRecord* job = turn.state().jobs.find(command.job);
  if (job == nullptr) {
    return turn.reply(command.request,
                      Error{Code::kNotFound, "there is no " + to_string(command.job), "job", ""});
  }
  if (is_terminal(job->phase) && job->phase != JobPhase::kCancelled) {
    return turn.reply(
        command.request,
        Error{Code::kConflict, "job " + job->spec.name + " is already " + to_string(job->phase),
              "job", ""});
  }
  if (!is_terminal(job->phase)) {
    turn.job(command.job).desired = JobDesired::kCancel;
    finish_job(turn, command.job, JobPhase::kCancelled, JobReason::kCancelledByUser);
  }
  turn.reply(command.request, command.job);
}

void advance_jobs(Turn& turn) {
  std::vector<JobId> live;
  for (const auto& [id, timers] : turn.state().timers) live.push_back(id);
  for (const JobId id : live) {
    if (!is_terminal(job_of(turn, id).phase)) advance(turn, id);
  }
}

}  // namespace shoal::coordinator
