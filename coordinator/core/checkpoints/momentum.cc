// See momentum.h.
#include "coordinator/core/checkpoints/momentum.h"

#include <algorithm>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/round_facts.h"
#include "outer_opt/core/step/momentum_shards.h"

namespace shoal::coordinator {
namespace {

bool shards(const JobRecord& job) {
  return job.spec.sync.outer_state == OuterState::kSharded && job.committed_round > 0;
}

RoundKey committed_key(const JobRecord& job) { return {job.id, job.lineage, job.committed_round}; }

// Dead ones included; none after a roll-back.
std::vector<ReduceMember> committed_members(const State& state, const JobRecord& job,
                                            StageIndex stage) {
  const RoundKey key = committed_key(job);
  if (!state.rounds.contains(key)) return {};
  return plan_of(state, key, stage).members;
}

std::vector<outer_opt::ValueRange> kept_by(const JobRecord& job, const ReplicaRecord& replica,
                                           const std::vector<ReduceMember>& members) {
  const StateSource& source = replica.source;
  const bool whole = source.kind == SourceKind::kCheckpoint && source.key == committed_key(job);
  if (whole) return {{0, stage_of(job, replica.stage).value_count}};
  return outer_opt::kept_ranges(members, replica.id);
}

}  // namespace

std::vector<MomentumHolder> momentum_holders(const State& state, const JobRecord& job,
                                             StageIndex stage) {
  if (!shards(job)) return {};
  const std::vector<ReduceMember> members = committed_members(state, job, stage);
  std::vector<MomentumHolder> sure, others;
  for (const ReplicaId id : holders(state, job, stage)) {
    const ReplicaRecord& replica = state.replicas.at(id);
    auto& list = replica.held_round == job.committed_round ? sure : others;
    for (const auto& range : kept_by(job, replica, members)) {
      list.push_back({id, replica.address, range.first, range.count});
    }
  }
  sure.insert(sure.end(), others.begin(), others.end());
  return sure;
}

void warn_of_lost_momentum(Turn& turn, const JobRecord& job, StageIndex stage,
                           const std::vector<MomentumHolder>& holders) {
  if (!shards(job)) return;
  const std::int64_t all = stage_of(job, stage).value_count;
  const std::int64_t lost = outer_opt::values_without_holder(all, holders);
  if (lost == 0) return;
  turn.event(Severity::kWarning, event_kind::kMomentumLost,
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
