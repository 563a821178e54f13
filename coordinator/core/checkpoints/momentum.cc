// See momentum.h.
#include "coordinator/core/checkpoints/momentum.h"

#include <algorithm>
#include <iterator>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/round_facts.h"
#include "outer_opt/core/step/momentum_shards.h"

namespace shoal::coordinator {
namespace {

bool shards(const JobRecord& job) {
  return job.spec.sync.outer_state == OuterState::kSharded && job.committed_round > 0;
}

RoundKey committed_key(const JobRecord& job) { return {job.id, job.epoch, job.committed_round}; }

// Dead ones included; none after a rollback.
std::vector<ReduceMember> committed_members(const State& state, const JobRecord& job,
                                            StageIndex stage) {
  const RoundKey key = committed_key(job);
  if (!state.rounds.contains(key)) return {};
  return plan_of(state, key, stage).members;
}

// The others kept what `after` says.
bool loaded_all(const JobRecord& job, const ReplicaRecord& replica) {
  const StateSource& source = replica.source;
  return source.kind == SourceKind::kCheckpoint && source.key == committed_key(job);
}

std::vector<MomentumHolder> kept_by(const JobRecord& job, const ReplicaRecord& replica,
                                    const std::vector<MomentumHolder>& after) {
  const std::int64_t all = stage_of(job, replica.stage).value_count;
  if (loaded_all(job, replica)) return {{replica.id, replica.address, 0, all}};
  std::vector<MomentumHolder> kept;
  for (const MomentumHolder& holder : after) {
    if (holder.replica != replica.id) continue;
    kept.push_back({replica.id, replica.address, holder.first, holder.count});
  }
  return kept;
}

}  // namespace

std::vector<MomentumHolder> momentum_holders(const State& state, const JobRecord& job,
                                             StageIndex stage) {
  if (!shards(job)) return {};
  const std::vector<MomentumHolder> after = momentum_after(state, job, stage);
  std::vector<MomentumHolder> sure, others;
  for (const ReplicaId id : in_sync_replicas(state, job, stage)) {
    const ReplicaRecord& replica = state.replicas.at(id);
    auto& list = replica.held_round == job.committed_round ? sure : others;
    std::ranges::move(kept_by(job, replica, after), std::back_inserter(list));
  }
  sure.insert(sure.end(), others.begin(), others.end());
  return sure;
}

void warn_of_lost_momentum(Transaction& tx, const JobRecord& job, StageIndex stage,
                           const std::vector<MomentumHolder>& holders) {
  if (!shards(job)) return;
  const std::int64_t all = stage_of(job, stage).value_count;
  const std::int64_t lost = outer_opt::values_without_holder(all, holders);
  if (lost == 0) return;
  tx.event(Severity::kWarning, event_kind::kMomentumLost,
           {.job = job.id, .round = job.committed_round},
           "outer momentum of " + std::to_string(lost) + " of " + std::to_string(all) +
               " values of stage " + std::to_string(stage) +
               " is lost with those that kept it; it starts from zero");
}

bool keep_parts(const State& state, ReducePlan& plan, StageIndex stage,
                const std::vector<bool>& reachable) {
  const JobRecord& job = state.jobs.at(plan.key.job);
  if (!shards(job)) return false;
  const std::vector<ReduceMember> before = committed_members(state, job, stage);
  if (before.size() != plan.members.size()) return false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool owns = before[i].part_count > 0;
    if (before[i].replica != plan.members[i].replica || (owns && !reachable[i])) return false;
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    plan.members[i].part_first = before[i].part_first;
    plan.members[i].part_count = before[i].part_count;
  }
  return true;
}

}  // namespace shoal::coordinator
