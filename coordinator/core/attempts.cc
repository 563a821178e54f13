// Attempts of a round's all-reduce: plan, votes, failures, and what follows from them.
#include <algorithm>
#include <numeric>

#include "coordinator/core/attempt.h"
#include "coordinator/core/data_ledger.h"
#include "coordinator/core/event_kinds.h"
#include "coordinator/core/links.h"
#include "coordinator/core/machines.h"
#include "coordinator/core/pipeline_view.h"
#include "coordinator/core/reducers.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/rounds.h"
#include "outer_opt/core/fragments.h"

namespace shoal::coordinator {
namespace {

constexpr std::int32_t kAbortsMax = 10;  // of one round number; then the job fails

Duration time_limit(const Options& options, std::int64_t value_count) {
  // A member moves about twice the vector; fp32 bounds every codec.
  const double bytes = 8.0 * static_cast<double>(value_count);
  return options.reduce_limit_min + seconds_f(bytes / options.reduce_bytes_per_s);
}

std::int64_t length_of(const JobStage& stage, std::int32_t fragment) {
  if (fragment == 0) return stage.value_count;
  return stage.fragments.at(static_cast<std::size_t>(fragment) - 1);
}

AttemptInput attempt_input(const Turn& turn, const RoundRecord& round, StageIndex stage) {
  const State& state = turn.state();
  const StageTimers* timers = state.timers.at(round.key.job).stages.find(stage);
  AttemptInput input;
  input.now = turn.now();
  input.started_at = stage_of(round, stage).attempt_started_at;
  const JobRecord& job = state.jobs.at(round.key.job);
  input.time_limit =
      time_limit(turn.options(), length_of(stage_of(job, stage), fragment_of_round(job, round)));
  if (timers != nullptr) input.first_failure_at = timers->first_failure_at;
  input.attempt = timers == nullptr ? 1 : std::max(1, timers->attempts);
  for (const ReplicaId replica : members_of(state, round.key, stage)) {
    const auto& contribution = state.contributions.at({round.key, replica});
    AttemptMember member;
    member.replica = replica;
    member.alive = is_live(state, replica);
    member.reducer = contribution.reject_reason == RejectReason::kReducer;
    member.contributes = contribution.weight > 0;
    member.owns_part = contribution.part_count > 0;
    member.left_out = contribution.left_out;
    if (contribution.state == ContributionState::kVoted) member.vote = contribution.average;
    const ReduceFailed* failed = timers == nullptr ? nullptr : timers->failures.find(replica);
    if (failed != nullptr) {
      member.failed = true;
      member.complains_about = failed->lost;
    }
    input.members.push_back(member);
  }
  return input;
}

ReplicaFailure failure_for(AttemptReason reason) {
  if (reason == AttemptReason::kMajority) return ReplicaFailure::kDigestMismatch;
  return reason == AttemptReason::kSilent ? ReplicaFailure::kFrozen
                                          : ReplicaFailure::kPeerUnreachable;
}

std::string of_stage(const JobRecord& job, StageIndex stage) {
  return job.stages.size() == 1 ? "" : " of stage " + std::to_string(stage);
}

void exclude(Turn& turn, const AttemptDecision& decision) {
  for (const ReplicaId replica : decision.exclude) {
    if (!is_live(turn.state(), replica)) continue;
    fail_replica(turn, replica, failure_for(decision.reason),
                 std::string("left out of the reduce: ") + to_string(decision.reason));
  }
}

// The dead leave the plan; what they had leased goes back.
void drop_dead_members(Turn& turn, const RoundKey& key, StageIndex stage) {
  for (const ReplicaId replica : members_of(turn.state(), key, stage)) {
    if (is_live(turn.state(), replica)) continue;
    JobRecord& job = turn.job(key.job);
    ContributionRecord& contribution = turn.contribution(key, replica);
    for (const auto& lease : contribution.leases)
      give_back({job.next_sequence, job.returned}, lease);
    contribution.leases.clear();
    contribution.state = ContributionState::kLost;
    contribution.member_index = -1;
    contribution.weight = 0;
  }
}

bool averages_only(const State& state, const RoundKey& key, ReplicaId member) {
  return state.contributions.at({key, member}).reject_reason == RejectReason::kReducer;
}

// False: there is none, the round was aborted.
bool next_attempt(Turn& turn, const RoundKey& key, StageIndex stage,
                  const AttemptDecision& decision) {
  exclude(turn, decision);
  drop_dead_members(turn, key, stage);
  auto members = members_of(turn.state(), key, stage);
  std::erase_if(members, [&](ReplicaId id) { return averages_only(turn.state(), key, id); });
  const JobRecord& job = turn.state().jobs.at(key.job);
  if (static_cast<std::int64_t>(members.size()) < job.spec.swarm.min_replicas) {
    abort_round(turn, key, AbortReason::kBelowMinReplicas);
    return false;
  }
  const bool usable = std::any_of(members.begin(), members.end(), [&](ReplicaId replica) {
    return turn.state().contributions.at({key, replica}).weight > 0;
  });
  if (!usable) {
    abort_round(turn, key, AbortReason::kNoUsableContribution);
    return false;
  }
  transition(turn, key, RoundState::kSealed);
  transition(turn, key, RoundState::kReducing);
  turn.event(Severity::kWarning, event_kind::kRoundAttempt, {.job = key.job, .round = key.round},
             "round " + std::to_string(key.round) + of_stage(job, stage) + ": next attempt with " +
                 std::to_string(members.size()) + " members (" + to_string(decision.reason) + ")");
  start_attempt(turn, key, stage, members);
  return true;
}

outer_opt::TopologyChoice choose_for(const JobRecord& job,
                                     const std::vector<outer_opt::LinkedMember>& links) {
  if (job.spec.sync.algorithm == SyncAlgorithm::kNone) return {};  // nobody to speak to
  return outer_opt::choose_topology(job.spec.sync, links);
}

// Who takes part in an attempt, how they can be reached, and what follows from that.
struct Lineup {
  std::vector<ReplicaId> members;
  std::vector<outer_opt::LinkedMember> links;
  outer_opt::TopologyChoice choice;
};

// Those without a part have nothing to do.
void leave_out_idle_reducers(Lineup& lineup) {
  const std::vector<double> shares = outer_opt::part_shares(lineup.links);
  for (std::size_t i = shares.size(); i-- > 0;) {
    if (!lineup.links[i].reducer || shares[i] > 0) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    lineup.members.erase(lineup.members.begin() + at);
    lineup.links.erase(lineup.links.begin() + at);
  }
}

Lineup line_up(const State& state, Instant now, const RoundKey& key, StageIndex stage,
               std::vector<ReplicaId> members) {
  const std::size_t training = members.size();
  const std::vector<ReplicaId> reducers = serving_reducers(state, key.job, stage);
  members.insert(members.end(), reducers.begin(), reducers.end());
  Lineup lineup{members, links_of(state, now, members), {}};
  for (std::size_t i = training; i < members.size(); ++i) lineup.links[i].reducer = true;
  lineup.choice = choose_for(state.jobs.at(key.job), lineup.links);
  leave_out_idle_reducers(lineup);
  return lineup;
}

// Those of the attempt before are members of the next one only when it names them.
void dismiss_reducers(Turn& turn, const RoundKey& key, StageIndex stage) {
  for (const ReplicaId member : members_of(turn.state(), key, stage)) {
    if (!averages_only(turn.state(), key, member)) continue;
    ContributionRecord& contribution = turn.contribution(key, member);
    contribution.state = ContributionState::kLost;
    contribution.member_index = -1;
    contribution.voted_at = {};
  }
}

void add_reducers(Turn& turn, const RoundKey& key, StageIndex stage, const Lineup& lineup) {
  for (std::size_t i = 0; i < lineup.members.size(); ++i) {
    const ReplicaId replica = lineup.members[i];
    if (!lineup.links[i].reducer || turn.state().contributions.contains({key, replica})) continue;
    ContributionRecord record;
    record.key = key;
    record.replica = replica;
    record.agent = turn.state().replicas.at(replica).agent;
    record.stage = stage;
    record.reject_reason = RejectReason::kReducer;
    turn.add(std::move(record));
  }
}

// The plan's order of the members, as indices.
std::vector<std::size_t> order_of(Topology topology,
                                  const std::vector<outer_opt::LinkedMember>& links) {
  if (topology == Topology::kRing) return outer_opt::ring_order(links);
  std::vector<std::size_t> order(links.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

// Parts by the members' lines, those of reducers included; equal ones in a ring, where everybody
// sends the same, and none in an all-gather.
void cut(ReducePlan& plan, const std::vector<outer_opt::LinkedMember>& links,
         const std::vector<std::size_t>& order) {
  std::vector<double> shares(links.size(), 1.0);
  if (plan.topology == Topology::kButterfly || plan.topology == Topology::kParamServer) {
    const std::vector<double> best = outer_opt::part_shares(links);
    for (std::size_t i = 0; i < order.size(); ++i) shares[i] = best[order[i]];
  }
  if (plan.topology != Topology::kAllgather) return assign_parts(plan, shares);
  for (ReduceMember& member : plan.members) member.part_first = member.part_count = 0;
}

void send_plan(Turn& turn, const ReducePlan& plan) {
  for (const ReduceMember& member : plan.members) {
    const ReplicaRecord& replica = turn.state().replicas.at(member.replica);
    if (replica.state == ReplicaState::kServing && !member.reducer) {
      transition(turn, member.replica, ReplicaState::kAveraging);
    }
    turn.send(replica.agent, ToReplica<ReducePlan>{member.replica, plan});
  }
}

void reopen(Turn& turn, const RoundKey& key, AbortReason reason) {
  const JobRecord& job = turn.state().jobs.at(key.job);
  transition(turn, key, RoundState::kOpen);
  RoundRecord& round = turn.round(key);
  ++round.aborts;
  round.abort_reason = reason;
  round.opened_at = turn.now();
  round.sealed_at = {};
  round.from_step = round.to_step;
  // Too few replicas is no reason to drift further apart: wait where they are.
  if (reason != AbortReason::kBelowMinReplicas) {
    const Steps end =
        std::min(round.to_step + outer_opt::round_length(job.spec.sync), job.spec.train.steps);
    round.to_step = std::max(round.from_step, end);
  }
  // A stage that lost its last replica has nothing in this round before it trains again, if need be
  // beyond the end.
  if (reason == AbortReason::kNoUsableContribution && round.to_step == round.from_step) {
    round.to_step += outer_opt::round_length(job.spec.sync);
  }
  JobTimers& timers = turn.volatile_state().timers[key.job];
  timers.close_sent = false;
  timers.stages.clear();
}

// Only the owner of a part can leave somebody out, and only a member of the same attempt.
void note_left_out(Turn& turn, const ContributionRecord& voter, const Vote& vote) {
  if (voter.part_count == 0) return;
  for (const ReplicaId replica : vote.left_out) {
    const ContributionRecord* named = turn.state().contributions.find({vote.key, replica});
    const bool member = named != nullptr && named->stage == voter.stage && named->member_index >= 0;
    if (member && !named->left_out) turn.contribution(vote.key, replica).left_out = true;
  }
}

// No misbehaviour, so no strike: the average was made without them.
void reject_left_out(Turn& turn, const RoundKey& key, const std::vector<ReplicaId>& left_out) {
  for (const ReplicaId replica : left_out) {
    ContributionRecord& contribution = turn.contribution(key, replica);
    contribution.reject_reason = RejectReason::kLeftOut;
    contribution.weight = 0;
  }
}

// A reducer is done when the last average has gone, and the others may have committed by then.
void count_late(Turn& turn, const Vote& vote, const ContributionRecord& known) {
  const bool counted = known.voted_at.ns != 0 || known.member_index < 0;
  if (known.reject_reason != RejectReason::kReducer || counted) return;
  ContributionRecord& contribution = turn.contribution(vote.key, known.replica);
  contribution.voted_at = turn.now();
  contribution.stats.sent += vote.stats.sent;
  contribution.stats.received += vote.stats.received;
  contribution.stats.reduce_s = vote.stats.reduce_s;
  turn.job(vote.key.job).bytes_sent += vote.stats.sent;
}

}  // namespace

std::vector<ReplicaId> members_of(const State& state, const RoundKey& key, StageIndex stage) {
  std::vector<std::pair<std::int32_t, ReplicaId>> ordered;
  for (const auto& [both, contribution] : state.contributions) {
    if (both.first != key || contribution.stage != stage || contribution.member_index < 0) continue;
    ordered.emplace_back(contribution.member_index, both.second);
  }
  std::sort(ordered.begin(), ordered.end());
  std::vector<ReplicaId> members;
  for (const auto& [index, replica] : ordered) members.push_back(replica);
  return members;
}

ReducePlan plan_of(const State& state, const RoundKey& key, StageIndex stage) {
  const JobRecord& job = state.jobs.at(key.job);
  ReducePlan plan;
  plan.key = key;
  plan.attempt = stage_of(state.rounds.at(key), stage).attempt;
  plan.topology = stage_of(state.rounds.at(key), stage).choice.topology;
  plan.codec =
      job.spec.sync.algorithm == SyncAlgorithm::kNone ? CodecKind::kFp32 : job.spec.sync.codec;
  plan.aggregator = job.spec.sync.aggregator;
  plan.fragment = fragment_of_round(job, state.rounds.at(key));
  plan.value_count = length_of(stage_of(job, stage), plan.fragment);
  plan.frame_values = stage_of(state.rounds.at(key), stage).frame_values;
  plan.time_limit = time_limit(state.options, plan.value_count);
  for (const ReplicaId replica : members_of(state, key, stage)) {
    const auto& contribution = state.contributions.at({key, replica});
    const ReplicaRecord* record = state.replicas.find(replica);
    plan.members.push_back({replica, record == nullptr ? "" : record->address, contribution.weight,
                            contribution.clip_factor, contribution.part_first,
                            contribution.part_count, averages_only(state, key, replica)});
  }
  return plan;
}

void start_attempt(Turn& turn, const RoundKey& key, StageIndex stage,
                   const std::vector<ReplicaId>& members) {
  dismiss_reducers(turn, key, stage);
  const Lineup lineup = line_up(turn.state(), turn.now(), key, stage, members);
  add_reducers(turn, key, stage, lineup);
  RoundStage& reduce = stage_of(turn.round(key), stage);
  reduce.choice = lineup.choice;
  reduce.frame_values =
      outer_opt::frame_values_for(turn.state().jobs.at(key.job).spec.sync.codec, lineup.links);
  const std::vector<std::size_t> order = order_of(reduce.choice.topology, lineup.links);
  ++reduce.attempt;
  reduce.attempt_started_at = turn.now();
  StageTimers& timers = turn.volatile_state().timers[key.job].stages[stage];
  ++timers.attempts;
  timers.failures.clear();
  timers.first_failure_at.reset();

  std::int32_t index = 0;
  for (const std::size_t at : order) {
    ContributionRecord& contribution = turn.contribution(key, lineup.members[at]);
    contribution.state = ContributionState::kMember;
    contribution.member_index = index++;
    contribution.average = {};
    contribution.left_out = false;
  }
  ReducePlan plan = plan_of(turn.state(), key, stage);
  cut(plan, lineup.links, order);
  for (const ReduceMember& member : plan.members) {
    ContributionRecord& contribution = turn.contribution(key, member.replica);
    contribution.part_first = member.part_first;
    contribution.part_count = member.part_count;
  }
  send_plan(turn, plan);
}

void on_vote(Turn& turn, ReplicaId replica, const Vote& vote) {
  const ContributionRecord* known = turn.state().contributions.find({vote.key, replica});
  const RoundRecord* round = turn.state().rounds.find(vote.key);
  if (known == nullptr || round == nullptr) return;
  if (vote.attempt != stage_of(*round, known->stage).attempt) return;
  if (round->state == RoundState::kCommitted) return count_late(turn, vote, *known);
  if (known->state != ContributionState::kMember) return;  // said twice
  const bool running = round->state == RoundState::kReducing || round->state == RoundState::kVoting;
  if (!running) return;
  note_left_out(turn, *known, vote);
  ContributionRecord& contribution = turn.contribution(vote.key, replica);
  contribution.state = ContributionState::kVoted;
  contribution.average = vote.average;
  contribution.voted_at = turn.now();
  contribution.stats.sent += vote.stats.sent;
  contribution.stats.received += vote.stats.received;
  contribution.stats.reduce_s = vote.stats.reduce_s;
  if (round->state == RoundState::kReducing) transition(turn, vote.key, RoundState::kVoting);
}

void on_reduce_failed(Turn& turn, ReplicaId replica, const ReduceFailed& failed) {
  const ContributionRecord* known = turn.state().contributions.find({failed.key, replica});
  const RoundRecord* round = turn.state().rounds.find(failed.key);
  if (known == nullptr || round == nullptr) return;
  if (failed.attempt != stage_of(*round, known->stage).attempt) return;
  if (known->state != ContributionState::kMember) return;
  StageTimers& timers = turn.volatile_state().timers[failed.key.job].stages[known->stage];
  if (!timers.first_failure_at) timers.first_failure_at = turn.now();
  timers.failures.put(replica, failed);
}

// A stage that agrees waits for the others: its votes stand, and it is judged the same way again.
void judge(Turn& turn, const RoundKey& key) {
  const StageIndex stages = stage_count(turn.state().jobs.at(key.job));
  std::vector<Digest> averages;  // of the stages that agree
  std::vector<ReplicaId> left_out;
  for (StageIndex stage = 0; stage < stages; ++stage) {
    const auto decision =
        judge_attempt(attempt_input(turn, turn.state().rounds.at(key), stage), turn.options());
    if (decision.look_again_at) look_again(turn, key.job, *decision.look_again_at);
    switch (decision.verdict) {
      case AttemptVerdict::kWait:
        break;
      case AttemptVerdict::kCommit:
        exclude(turn, decision);
        averages.push_back(decision.average);
        left_out.insert(left_out.end(), decision.left_out.begin(), decision.left_out.end());
        break;
      case AttemptVerdict::kRetry:
        if (!next_attempt(turn, key, stage, decision)) return;
        break;
      case AttemptVerdict::kAbort:
        exclude(turn, decision);
        return abort_round(turn, key, AbortReason::kAttemptsSpent);
    }
  }
  if (averages.size() < static_cast<std::size_t>(stages)) return;
  reject_left_out(turn, key, left_out);
  commit(turn, key, averages);
}

void abort_round(Turn& turn, const RoundKey& key, AbortReason reason) {
  const JobRecord& job = turn.state().jobs.at(key.job);
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    drop_dead_members(turn, key, stage);
    dismiss_reducers(turn, key, stage);
  }
  transition(turn, key, RoundState::kAborted);
  turn.event(Severity::kWarning, event_kind::kRoundAborted, {.job = key.job, .round = key.round},
             "round " + std::to_string(key.round) + " aborted (" + to_string(reason) +
                 "); the progress is kept");
  reopen(turn, key, reason);
  const bool hopeless = turn.state().rounds.at(key).aborts > kAbortsMax;
  if (hopeless) {
    turn.job(key.job).failures_in_row = turn.options().failures_in_row_max + 1;
    return;
  }
  const auto there = holders(turn.state(), job);
  const std::vector<OpenRound> orders = enlist(turn, key, there);
  for (const ReplicaId replica : there) {
    if (turn.state().replicas.at(replica).state == ReplicaState::kAveraging) {
      transition(turn, replica, ReplicaState::kServing);
    }
    ContributionRecord& contribution = turn.contribution(key, replica);
    contribution.member_index = -1;
    contribution.average = {};
  }
  refresh_view(turn, key.job);
  for (std::size_t i = 0; i < there.size(); ++i) {
    turn.send(turn.state().replicas.at(there[i]).agent,
              ToReplica<AbortRound>{there[i], AbortRound{key, reason, orders[i]}});
  }
}

}  // namespace shoal::coordinator
