#include "coordinator/core/rounds/pipeline_view.h"

#include <algorithm>

#include "coordinator/core/rounds/line_times.h"

namespace shoal::coordinator {
namespace {

constexpr double kSameLine = 1.25;  // a smaller change is not worth a view

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

std::vector<PipelineMember> described(const Transaction& tx, const JobRecord& job,
                                      const std::vector<ReplicaId>& ids) {
  const State& state = tx.state();
  const std::vector<Duration> lines = line_times(state, tx.now(), job, ids);
  std::vector<PipelineMember> described;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const ReplicaRecord& replica = state.replicas.at(ids[i]);
    described.push_back(
        {ids[i], replica.stage, replica.address, speed_of(state, ids[i]), lines[i]});
  }
  return described;
}

bool are_same(const std::vector<ReplicaId>& ids, const std::vector<PipelineMember>& told) {
  return std::ranges::equal(ids, told, {}, {}, &PipelineMember::replica);
}

bool have_same_lines(const std::vector<PipelineMember>& now,
                     const std::vector<PipelineMember>& told) {
  return std::ranges::equal(now, told, [](const PipelineMember& a, const PipelineMember& b) {
    const auto [less, more] = std::minmax(a.line_time, b.line_time);
    return static_cast<double>(more.ns) <= kSameLine * static_cast<double>(less.ns);
  });
}

}  // namespace

void refresh_view(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (!has_views(job)) return;
  const auto ids = members(tx.state(), job);
  JobTimers& timers = tx.volatile_state().timers[id];
  const bool same = are_same(ids, timers.view);
  if (same && timers.view_round == job.committed_round) return;
  timers.view_round = job.committed_round;
  std::vector<PipelineMember> now = described(tx, job, ids);
  if (same && have_same_lines(now, timers.view)) return;
  timers.view = std::move(now);
  ++tx.job(id).view;
  const PipelineView view{job.id, job.epoch, job.view, timers.view};
  for (const ReplicaId member : ids) tx.tell(member, view);
}

void resend_view(Transaction& tx, const ReplicaRecord& replica) {
  const JobRecord& job = tx.state().jobs.at(replica.job);
  if (!has_views(job)) return;
  refresh_view(tx, job.id);  // what is sent again must carry the number of this very list
  const std::vector<PipelineMember>& told = tx.state().timers.at(job.id).view;
  if (std::ranges::find(told, replica.id, &PipelineMember::replica) == told.end()) return;
  tx.tell(replica.id, PipelineView{job.id, job.epoch, job.view, told});
}

}  // namespace shoal::coordinator
