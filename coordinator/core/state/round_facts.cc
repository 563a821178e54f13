#include "coordinator/core/state/round_facts.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/core/state/measured_lines.h"
#include "coordinator/core/state/movement.h"
#include "outer_opt/core/round/audit.h"
#include "outer_opt/core/round/groups.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/momentum_shards.h"

namespace shoal::coordinator {
namespace {

std::int64_t length_of(const JobStage& stage, std::int32_t fragment) {
  if (fragment == 0) return stage.value_count;
  return stage.fragments.at(static_cast<std::size_t>(fragment) - 1);
}

// The share of a measured line that a reduce can count on beside other traffic.
constexpr double kUsableShare = 0.25;

// Values that this reduce averages.
std::int64_t value_count_of(const JobRecord& job, const RoundRecord& round, ReduceIndex reduce) {
  return length_of(stage_of(job, stage_of_reduce(job, reduce)), fragment_of_round(job, round));
}

// Bytes per second of the slowest line that was measured of a member's agent, either way; infinite:
// none was.
double slowest_line(const State& state, const RoundRecord& round, ReduceIndex reduce) {
  std::vector<AgentId> agents;
  for (const ReplicaId replica : members_of(state, round.key, reduce)) {
    agents.push_back(state.contributions.at({round.key, replica}).agent);
  }
  const auto lines = lines_between(state, reduce_at(round, reduce).attempt_started_at, agents);
  double slowest = std::numeric_limits<double>::infinity();
  for (const AgentId agent : agents) {
    const AgentLine* line = lines.find(agent);
    if (line != nullptr && line->bytes_per_s() > 0)
      slowest = std::min(slowest, line->bytes_per_s());
  }
  return slowest;
}

// Members of an asynchronous round that train on hear of its plan between two steps.
Duration until_heard(const State& state, const RoundRecord& round, ReduceIndex reduce) {
  Duration longest;
  if (state.jobs.at(round.key.job).spec.sync.algorithm != SyncAlgorithm::kAsync) return longest;
  for (const ReplicaId replica : members_of(state, round.key, reduce)) {
    longest = std::max(longest, work_limit(state, replica));
  }
  return longest;
}

}  // namespace

RoundKey next_key(const JobRecord& job) { return {job.id, job.epoch, job.committed_round + 1}; }

bool is_trained(const JobRecord& job) { return job.committed_step >= job.spec.train.steps; }

bool averages_in_groups(const JobRecord& job) {
  return outer_opt::averages_in_groups(job.spec.sync);
}

std::int32_t fragment_of_round(const JobRecord& job, const RoundRecord& round) {
  return outer_opt::fragment_of(job.spec, round.key.round, round.to_step);
}

bool is_late(const JobRecord& job, const ContributionRecord& contribution) {
  return job.spec.sync.algorithm == SyncAlgorithm::kAsync &&
         contribution.reject_reason == RejectReason::kNotReported;
}

bool has_assigned_data(const ContributionRecord& contribution) {
  const bool left = contribution.state == ContributionState::kLost ||
                    contribution.state == ContributionState::kMoved;
  return !contribution.reducer && !left && contribution.reject_reason != RejectReason::kJoiner;
}

bool has_events(const JobRecord& job, const RoundRecord& round) {
  if (job.spec.sync.algorithm != SyncAlgorithm::kDdp) return true;
  const std::int64_t every = job.spec.eval.every_rounds;
  return (every > 0 && round.key.round % every == 0) || round.to_step >= job.spec.train.steps;
}

ReduceIndex reduce_count(const State& state, const RoundKey& key) {
  return static_cast<ReduceIndex>(state.rounds.at(key).reduces.size());
}

StageIndex stage_of_reduce(const JobRecord& job, ReduceIndex reduce) {
  return averages_in_groups(job) ? 0 : reduce;
}

std::vector<ReplicaId> members_of(const State& state, const RoundKey& key, ReduceIndex reduce) {
  std::vector<std::pair<std::int32_t, ReplicaId>> ordered;
  for (const auto& [both, contribution] : state.contributions) {
    if (both.first != key || contribution.member_index < 0) continue;
    if (reduce_index(contribution) != reduce) continue;
    ordered.emplace_back(contribution.member_index, both.second);
  }
  std::sort(ordered.begin(), ordered.end());
  std::vector<ReplicaId> members;
  for (const auto& [index, replica] : ordered) members.push_back(replica);
  return members;
}

double sent_norm(const RoundReport& report) {
  return report.sent_norm > 0 ? report.sent_norm : report.norm;
}

ReducePlan plan_of(const State& state, const RoundKey& key, ReduceIndex reduce) {
  ReducePlan plan = averaging_plan_of(state, key, reduce);
  const Reduce& record = reduce_at(state.rounds.at(key), reduce);
  return record.audited.empty() ? plan : outer_opt::audit_plan(std::move(plan), record.audited);
}

ReducePlan averaging_plan_of(const State& state, const RoundKey& key, ReduceIndex reduce) {
  const JobRecord& job = state.jobs.at(key.job);
  const RoundRecord& round = state.rounds.at(key);
  const Reduce& record = reduce_at(round, reduce);
  const SyncSpec& sync = job.spec.sync;
  ReducePlan plan;
  plan.key = key;
  plan.attempt = record.attempt;
  plan.topology = record.choice.topology;
  plan.codec = sync.algorithm == SyncAlgorithm::kNone ? CodecKind::kFp32 : sync.codec;
  plan.aggregator = sync.aggregator;
  plan.fragment = fragment_of_round(job, round);
  plan.value_count = value_count_of(job, round, reduce);
  plan.frame_values = record.frame_values;
  plan.entropy_coding = record.entropy_coding;
  plan.outer_lr = round.outer_lr;
  plan.codes_own = audit_share(job.spec) > 0;
  plan.time_limit = attempt_time_limit(state, round, reduce);
  if (sync.outer_state == OuterState::kSharded) {
    const OwnerTerms outer{round.outer_lr, sync.outer.momentum};
    plan.owner_step = OwnerStep{outer, record.momentum_holders};
  }
  for (const ReplicaId replica : members_of(state, key, reduce)) {
    const auto& own = state.contributions.at({key, replica});
    const ReplicaRecord* live = state.replicas.find(replica);
    plan.members.push_back({replica, live == nullptr ? "" : live->address, own.weight,
                            own.clip_factor, own.part_first, own.part_count, own.reducer});
  }
  return plan;
}

// A member moves about twice the vector; fp32 bounds every codec. One that has to get its part of
// the outer momentum first moves at most one vector more.
Duration attempt_time_limit(const State& state, const RoundRecord& round, ReduceIndex reduce) {
  const JobRecord& job = state.jobs.at(round.key.job);
  const double vectors = job.spec.sync.outer_state == OuterState::kSharded ? 3 : 2;
  const double bytes = 4.0 * vectors * static_cast<double>(value_count_of(job, round, reduce));
  const double rate =
      std::min(state.options.reduce_bytes_per_s, kUsableShare * slowest_line(state, round, reduce));
  return state.options.reduce_limit_min + seconds_f(bytes / rate) +
         until_heard(state, round, reduce);
}

std::vector<MomentumHolder> momentum_after(const State& state, const JobRecord& job,
                                           StageIndex stage) {
  const RoundRecord* round = committed_round(state, job);
  if (round == nullptr || job.spec.sync.outer_state != OuterState::kSharded) return {};
  const std::vector<ReduceMember> members = plan_of(state, round->key, stage).members;
  if (members.empty()) return reduce_at(*round, stage).momentum_holders;
  std::vector<MomentumHolder> kept;
  for (const ReduceMember& member : members) {
    for (const auto& range : outer_opt::kept_ranges(members, member.replica)) {
      kept.push_back({member.replica, member.address, range.first, range.count});
    }
  }
  return kept;
}

CommitRecord commit_record(const State& state, const JobRecord& job) {
  CommitRecord record;
  record.key = {job.id, job.epoch, job.committed_round};
  record.step = job.committed_step;
  record.tokens = job.committed_tokens;
  record.next_sequence = job.next_sequence;
  record.returned = job.returned;
  const RoundKey open = next_key(job);
  for (const ReplicaId replica : round_replicas(state, open)) {
    give_back({record.next_sequence, record.returned},
              state.contributions.at({open, replica}).leases);
  }
  // The same cut gives the same ledger, however much was leased since.
  if (!record.returned.empty() &&
      record.returned.back().first + record.returned.back().count == record.next_sequence) {
    record.next_sequence = record.returned.back().first;
    record.returned.pop_back();
  }
  record.data = job.data;
  record.next_replica = state.counters.next_replica;
  record.next_checkpoint = state.counters.next_checkpoint;
  const RoundRecord* round = committed_round(state, job);
  if (round == nullptr) return record;
  record.carried_steps = round->carried_steps;
  record.outer_lr = round->outer_lr;
  for (const Reduce& reduce : round->reduces) {
    record.averages.push_back(reduce.average);
    record.anchors.push_back(reduce.base);
    record.momenta.push_back(reduce.base_momentum);
  }
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    std::ranges::move(momentum_after(state, job, stage),
                      std::back_inserter(record.momentum_holders));
  }
  return record;
}

}  // namespace shoal::coordinator
