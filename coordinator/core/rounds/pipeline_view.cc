#include "coordinator/core/rounds/pipeline_view.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

bool has_views(const JobRecord& job) {
  const bool active = job.phase == JobPhase::kTraining || job.phase == JobPhase::kStalled ||
                      job.phase == JobPhase::kFinalizing;
  return active && job.stages.size() > 1;
}

std::vector<ReplicaId> members(const State& state, const JobRecord& job) {
  const RoundRecord* round = current_round(state, job);
  std::vector<ReplicaId> ids =
      round == nullptr ? in_sync_replicas(state, job) : with_assigned_data(state, round->key);
  std::stable_sort(ids.begin(), ids.end(), [&](ReplicaId a, ReplicaId b) {
    return state.replicas.at(a).stage < state.replicas.at(b).stage;
  });
  return ids;
}

PipelineView view_of(const State& state, const JobRecord& job,
                     const std::vector<ReplicaId>& members) {
  PipelineView view{job.id, job.epoch, job.view, {}};
  for (const ReplicaId id : members) {
    const ReplicaRecord& replica = state.replicas.at(id);
    view.members.push_back({id, replica.stage, replica.address, speed_of(state, id)});
  }
  return view;
}

}  // namespace

void refresh_view(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (!has_views(job)) return;
  auto ids = members(tx.state(), job);
  std::vector<ReplicaId>& told = tx.volatile_state().timers[id].view;
  if (ids == told) return;
  told = std::move(ids);
  ++tx.job(id).view;
  const PipelineView view = view_of(tx.state(), job, told);
  for (const ReplicaId member : told) {
    tx.tell(member, view);
  }
}

void resend_view(Transaction& tx, const ReplicaRecord& replica) {
  const JobRecord& job = tx.state().jobs.at(replica.job);
  if (!has_views(job)) return;
  refresh_view(tx, job.id);  // what is sent again must carry the number of this very list
  const std::vector<ReplicaId>& told = tx.state().timers.at(job.id).view;
  if (std::find(told.begin(), told.end(), replica.id) == told.end()) return;
  tx.tell(replica.id, view_of(tx.state(), job, told));
}

}  // namespace shoal::coordinator
