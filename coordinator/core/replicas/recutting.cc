#include "coordinator/core/replicas/recutting.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

bool can_load_other_cuts(const State& state, AgentId agent) {
  const Presence* presence = state.presence.find(agent);
  return presence != nullptr && presence->protocol >= kFirstWithOtherCuts;
}

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
    return !entry.second.connected || can_load_other_cuts(state, entry.first);
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
    return !can_load_other_cuts(tx.state(), device.agent);
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

// What was noted of stages by their numbers.
void forget_stages(JobTimers& timers) {
  timers.left.clear();
  timers.look.reset();
  timers.considered.reset();
}

}  // namespace

std::string why_cut_stays(const State& state, const JobRecord& job) {
  if (job.spec.trainer.kind == TrainerKind::kPython) return "a program cuts its model itself";
  if (averages_in_groups(job)) return "its replicas average in groups";
  if (job.spec.sync.outer_state() == OuterState::kSharded) {
    return "its outer state is sharded (sync.outer_state)";
  }
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job != job.id || !says_no_cut(job, &checkpoint)) continue;
    return to_string(id) + " was stored by a version that did not record its cut";
  }
  if (says_no_cut(job, continued_from(state, job))) {
    return job.spec.train.continue_from + " was stored by a version that did not record its cut";
  }
  const CheckpointId* refused = state.recuts_refused.find(job.id);
  const CheckpointRecord* committed = checkpoint_of_committed(state, job);
  if (refused != nullptr && committed != nullptr && committed->id == *refused) {
    return to_string(*refused) + " could not be loaded on another one";
  }
  const bool any = std::ranges::any_of(
      state.presence, [&](const auto& entry) { return can_load_other_cuts(state, entry.first); });
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
  const CheckpointId* refused = state.recuts_refused.find(job.id);
  if (refused != nullptr && job.recut_from == *refused) return true;
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
