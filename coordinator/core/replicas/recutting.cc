#include "coordinator/core/replicas/recutting.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

// A version that did not record the units of parts has stored it.
bool says_no_cut(const JobRecord& job, const CheckpointRecord* checkpoint) {
  return checkpoint != nullptr && checkpoint->state == CheckpointState::kStored &&
         cut_of(job.spec, *checkpoint).empty();
}

// The devices that the present cut lacks may be back in a moment.
bool may_come_back(const State& state, const PlacementInput& input) {
  return std::ranges::any_of(input.free,
                             [](const FreeDevice& device) {
                               return device.resting && !device.rests_long && !device.refused;
                             }) ||
         std::ranges::any_of(state.presence,
                             [](const auto& entry) { return !entry.second.connected; });
}

// All agents are here, none of them loads another cut, and no replica has done so.
bool nobody_can_load(const State& state, JobId job) {
  const bool waits = std::ranges::any_of(state.presence, [&](const auto& entry) {
    return !entry.second.connected || speaks(state, entry.first, kFirstWithOtherCuts);
  });
  return !waits && !state.presence.empty() && live_replicas(state, job).empty() &&
         absent_replicas(state, job).empty();
}

PlacementInput without_cut(const Transaction& tx, const JobRecord& job,
                           const std::vector<JobId>& gone) {
  JobRecord uncut = job;
  uncut.stages.clear();
  PlacementInput input = placement_input(tx, uncut, gone);
  input.live.clear();
  std::erase_if(input.free, [&](const FreeDevice& device) {
    return !speaks(tx.state(), device.agent, kFirstWithOtherCuts);
  });
  return input;
}

std::string text_of(const std::vector<UnitRange>& cut) {
  std::string units;
  for (const UnitRange& range : cut) {
    units += (units.empty() ? "" : ", ") + std::to_string(range.first) + " to " +
             std::to_string(range.last - 1);
  }
  return std::to_string(cut.size()) + (cut.size() == 1 ? " stage" : " stages") + " (units " +
         units + ")";
}

void tell_recut(Transaction& tx, JobId id, const std::vector<UnitRange>& cut,
                const CheckpointRecord* from) {
  const JobRecord& job = tx.state().jobs.at(id);
  const std::string source =
      from == nullptr ? "its initial parameters"
                      : to_string(from->id) + " of round " + std::to_string(from->key.round);
  tx.event(Severity::kInfo, event_kind::kPipelineRecut, {.job = id, .round = job.committed_round},
           job.spec.name + " is cut into " + text_of(cut) + ", before into " +
               text_of(cut_of(job)) + "; it continues from " + source + " (swarm.recut)");
}

using Speeds = std::vector<std::pair<DeviceKey, double>>;

// The speeds of all devices that train, also where the agent is out of reach.
Speeds speeds_of_devices(const State& state) {
  Speeds speeds;
  for (const auto& [id, presence] : state.presence) {
    for (const Device& device : state.agents.at(id).devices) {
      if (device.kind == DeviceKind::kReducer) continue;
      speeds.emplace_back(DeviceKey{id, device.index}, device.gflops);
    }
  }
  return speeds;
}

// A device is new, or computes at another speed. Devices that left change nothing.
bool are_better_known(const Speeds& before, const Speeds& now) {
  constexpr double kNoise = 0.1;  // of a measurement
  return std::ranges::any_of(now, [&](const auto& device) {
    const auto known = std::ranges::find(before, device.first, &Speeds::value_type::first);
    return known == before.end() || std::fabs(known->second - device.second) >
                                        kNoise * std::max(known->second, device.second);
  });
}

bool is_refusal_over(const Transaction& tx, const JobRecord& job, const RecutRefusal& refusal) {
  if (job.recut_from == refusal.checkpoint) return false;  // the job goes back first
  const CheckpointRecord* committed = checkpoint_of_committed(tx.state(), job);
  return committed == nullptr || committed->id != refusal.checkpoint ||
         tx.now() - refusal.at >= kRecutRefusedFor ||
         are_better_known(refusal.devices, speeds_of_devices(tx.state()));
}

}  // namespace

void forget_stages(JobTimers& timers) {
  timers.left.clear();
  timers.balance_said.clear();
  timers.look.reset();
  timers.considered.reset();
}

void refuse_recut(Transaction& tx, const ReplicaRecord& failed, ReplicaFailure failure,
                  const std::string& detail) {
  const CheckpointId id = failed.source.checkpoint;
  const JobRecord& job = tx.state().jobs.at(failed.job);
  if (failed.source.kind != SourceKind::kCheckpoint || !id || job.recut_from != id) return;
  const bool differs = failure == ReplicaFailure::kDigestMismatch && failed.held_round < 0;
  if (!differs && failure != ReplicaFailure::kInternal) return;
  if (is_recut_refused(tx.state(), job)) return;
  tx.volatile_state().recuts_refused.put(job.id, {id, tx.now(), speeds_of_devices(tx.state())});
  tx.event(Severity::kWarning, event_kind::kPipelineRecut,
           {.job = job.id, .agent = failed.agent, .replica = failed.id},
           job.spec.name + " goes back to the cut of " + to_string(id) +
               ", which could not be loaded on another one: " + detail);
}

void end_recut_refusal(Transaction& tx, JobId id) {
  const RecutRefusal* refusal = tx.state().recuts_refused.find(id);
  if (refusal == nullptr) return;
  if (is_refusal_over(tx, tx.state().jobs.at(id), *refusal)) {
    tx.volatile_state().recuts_refused.erase(id);
  } else {
    tx.schedule_wakeup(id, refusal->at + kRecutRefusedFor);
  }
}

std::string why_cut_stays(const State& state, const JobRecord& job) {
  if (job.spec.trainer.kind == TrainerKind::kPython) return "a program cuts its model itself";
  if (averages_in_groups(job)) return "its replicas average in groups";
  if (job.spec.sync.outer_state == OuterState::kSharded) {
    return "its outer state is sharded (sync.outer_state)";
  }
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job != job.id || !says_no_cut(job, &checkpoint)) continue;
    return to_string(id) + " was stored by a version that did not record its cut";
  }
  if (says_no_cut(job, continued_from(state, job))) {
    return job.spec.train.continue_from + " was stored by a version that did not record its cut";
  }
  const RecutRefusal* refused = state.recuts_refused.find(job.id);
  const CheckpointRecord* committed = checkpoint_of_committed(state, job);
  if (refused != nullptr && committed != nullptr && committed->id == refused->checkpoint) {
    return to_string(committed->id) + " could not be loaded on another one";
  }
  const bool any = std::ranges::any_of(state.presence, [&](const auto& entry) {
    return speaks(state, entry.first, kFirstWithOtherCuts);
  });
  return any ? "" : "the agents are of a version that loads no checkpoint of another cut";
}

bool may_cut_anew(const State& state, const JobRecord& job) {
  if (!job.spec.swarm.recut || job.stages.empty() || is_to_let_go(job)) return false;
  if (!live_replicas(state, job.id).empty() || !absent_replicas(state, job.id).empty()) {
    return false;
  }
  return (job.committed_round == 0 || checkpoint_of_committed(state, job) != nullptr) &&
         why_cut_stays(state, job).empty();
}

bool is_recut_refused(const State& state, const JobRecord& job) {
  const RecutRefusal* refused = state.recuts_refused.find(job.id);
  if (refused != nullptr && job.recut_from == refused->checkpoint) return true;
  return job.recut_from && nobody_can_load(state, job.id);
}

PlacementDecision with_best_cut(const Transaction& tx, const JobRecord& job,
                                const PlacementInput& input, const std::vector<JobId>& gone) {
  PlacementDecision kept = decide_placement(input);
  if (!job.spec.swarm.recut || !why_cut_stays(tx.state(), job).empty()) return kept;
  if (kept.reason != PlacementReason::kPlaced && may_come_back(tx.state(), input)) return kept;
  PlacementDecision other = decide_placement(without_cut(tx, job, gone));
  return is_worth_recut(kept, other) ? other : kept;
}

PlacementDecision decide_placement(const Transaction& tx, const JobRecord& job,
                                   const PlacementInput& input) {
  return may_cut_anew(tx.state(), job) ? with_best_cut(tx, job, input) : decide_placement(input);
}

void set_cut(Transaction& tx, JobId id, const std::vector<UnitRange>& cut) {
  const JobRecord& known = tx.state().jobs.at(id);
  const bool first = known.stages.empty();
  SHOAL_CHECK(first || live_replicas(tx.state(), id).empty(), "a replica lives on the other cut");
  const CheckpointRecord* from = nullptr;
  if (!first && known.committed_round > 0) from = checkpoint_of_committed(tx.state(), known);
  if (!first) tell_recut(tx, id, cut, from);
  for (const ReplicaId reducer : live_reducers(tx.state(), id)) {
    release_replica(tx, reducer, ReleaseReason::kReplaced);  // of a stage of before
  }
  // It may be the cut of that checkpoint, when the job has had another one since.
  const bool of_checkpoint = from != nullptr && cut_of(known.spec, *from) == cut;
  JobRecord& job = tx.job(id);
  job.stages.clear();
  for (const UnitRange units : cut) {
    JobStage& stage = job.stages.emplace_back(JobStage{units, 0, {}, {}});
    if (!of_checkpoint) continue;
    const CheckpointPart& part = from->parts.at(job.stages.size() - 1);
    stage.anchor = part.anchor;
    stage.momentum = part.momentum;
  }
  job.recut_from = from == nullptr || of_checkpoint ? CheckpointId() : from->id;
  if (!first) forget_stages(tx.volatile_state().timers[id]);
}

}  // namespace shoal::coordinator
