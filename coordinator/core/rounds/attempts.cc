#include "coordinator/core/rounds/attempts.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/core/checkpoints/momentum.h"
#include "coordinator/core/decisions/attempt.h"
#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/rounds/commits.h"
#include "coordinator/core/rounds/lineup.h"
#include "coordinator/core/rounds/orders.h"
#include "coordinator/core/rounds/pipeline_view.h"
#include "coordinator/core/rounds/round_groups.h"
#include "coordinator/core/rounds/verification.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::coordinator {
namespace {

constexpr std::int32_t kAbortsMax = 10;  // of one round number; then the job fails

AttemptInput attempt_input(const Turn& turn, const RoundRecord& round, ReduceIndex reduce) {
  const State& state = turn.state();
  const ReduceTimers* timers = state.timers.at(round.key.job).reduces.find(reduce);
  AttemptInput input;
  input.now = turn.now();
  input.started_at = stage_of(round, reduce).attempt_started_at;
  const Duration limit = attempt_time_limit(state, round, reduce);
  input.time_limit = turn.deadline(input.started_at, limit) - input.started_at;
  if (timers != nullptr) input.first_failure_at = timers->first_failure_at;
  input.attempt = timers == nullptr ? 1 : std::max(1, timers->attempts);
  for (const ReplicaId replica : members_of(state, round.key, reduce)) {
    const auto& contribution = state.contributions.at({round.key, replica});
    AttemptMember member;
    member.replica = replica;
    member.alive = is_present(state, replica);
    member.reducer = contribution.reducer;
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

std::string of_reduce(const JobRecord& job, ReduceIndex reduce) {
  if (averages_in_groups(job)) return " of group " + std::to_string(reduce);
  return job.stages.size() == 1 ? "" : " of stage " + std::to_string(reduce);
}

void exclude(Turn& turn, const AttemptDecision& decision) {
  exclude_replicas(turn, decision.exclude, failure_for(decision.reason),
                   std::string("left out of the reduce: ") + to_string(decision.reason));
}

bool averages_only(const State& state, const RoundKey& key, ReplicaId member) {
  return state.contributions.at({key, member}).reducer;
}

// Live members that hold a state: of this reduce, or of all groups.
std::int64_t taking_part(const State& state, const RoundKey& key, ReduceIndex reduce) {
  const bool in_groups = averages_in_groups(state.jobs.at(key.job));
  std::int64_t count = 0;
  for (ReduceIndex i = 0; i < reduce_count(state, key); ++i) {
    if (i != reduce && !in_groups) continue;
    for (const ReplicaId member : members_of(state, key, i)) {
      count += is_present(state, member) && !averages_only(state, key, member);
    }
  }
  return count;
}

// This reduce comes to nothing: its group goes without, a stage takes the round with it. False: the
// round was aborted.
bool give_up(Turn& turn, const RoundKey& key, ReduceIndex reduce, AbortReason reason) {
  if (averages_in_groups(turn.state().jobs.at(key.job))) {
    give_up_group(turn, key, reduce, to_string(reason));
    return true;
  }
  abort_round(turn, key, reason);
  return false;
}

// What it had leased goes back.
void lose_contribution(Turn& turn, const RoundKey& key, ReplicaId replica) {
  JobRecord& job = turn.job(key.job);
  ContributionRecord& contribution = turn.contribution(key, replica);
  give_back({job.next_sequence, job.returned}, contribution.leases);
  contribution.leases.clear();
  contribution.state = ContributionState::kLost;
}

// The dead and the absent leave the plan. An absent one keeps what it has trained, and counts in
// this round when it is back before the round commits.
void drop_dead_members(Turn& turn, const RoundKey& key, ReduceIndex reduce) {
  for (const ReplicaId replica : members_of(turn.state(), key, reduce)) {
    if (is_present(turn.state(), replica)) continue;
    ContributionRecord& contribution = turn.contribution(key, replica);
    const bool reported = contribution.reported_at.ns != 0;
    contribution.state = reported ? ContributionState::kReported : ContributionState::kTraining;
    contribution.member_index = -1;
    contribution.average = {};
    contribution.voted_at = {};
    contribution.weight = 0;
    if (!is_live(turn.state(), replica)) lose_contribution(turn, key, replica);
  }
}

// False: the round was aborted.
bool next_attempt(Turn& turn, const RoundKey& key, ReduceIndex reduce,
                  const AttemptDecision& decision) {
  exclude(turn, decision);
  drop_dead_members(turn, key, reduce);
  auto members = members_of(turn.state(), key, reduce);
  std::erase_if(members, [&](ReplicaId id) { return averages_only(turn.state(), key, id); });
  const JobRecord& job = turn.state().jobs.at(key.job);
  if (taking_part(turn.state(), key, reduce) < job.spec.swarm.min_replicas) {
    abort_round(turn, key, AbortReason::kBelowMinReplicas);
    return false;
  }
  if (!any_usable(turn.state(), key, members)) {
    return give_up(turn, key, reduce, AbortReason::kNoUsableContribution);
  }
  transition(turn, key, RoundState::kSealed);
  transition(turn, key, RoundState::kReducing);
  turn.event(Severity::kWarning, event_kind::kRoundAttempt, {.job = key.job, .round = key.round},
             "round " + std::to_string(key.round) + of_reduce(job, reduce) +
                 ": next attempt with " + std::to_string(members.size()) + " members (" +
                 to_string(decision.reason) + ")");
  start_attempt(turn, key, reduce, members);
  return true;
}

// Those of the attempt before are members of the next one only when it names them.
void dismiss_reducers(Turn& turn, const RoundKey& key, ReduceIndex reduce) {
  for (const ReplicaId member : members_of(turn.state(), key, reduce)) {
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
    record.reducer = true;
    turn.add(std::move(record));
  }
}

// Who is barred owns no part, unless nobody else can.
void take_parts_from_barred(const std::vector<ReplicaId>& barred, Lineup& lineup) {
  const Lineup before = lineup;
  bool left = false;
  for (std::size_t i = 0; i < lineup.members.size(); ++i) {
    if (std::ranges::count(barred, lineup.members[i]) > 0) lineup.links[i].reachable = false;
    left |= lineup.links[i].reachable;
  }
  if (!left) lineup = before;
}

std::vector<bool> reachable_in(const Lineup& lineup) {
  std::vector<bool> reachable;
  for (const outer_opt::LinkedMember& member : lineup.links) reachable.push_back(member.reachable);
  return reachable;
}

// A value without an owner would keep its old one, one with two be averaged twice.
void check_parts(const ReducePlan& plan) {
  if (plan.topology == Topology::kAllgather) return;  // nobody owns any
  std::int64_t next = 0;
  for (const ReduceMember& member : plan.members) {
    const bool follows = member.part_count == 0 || member.part_first == next;
    SHOAL_CHECK(follows && member.part_count >= 0, "parts overlap, or leave a gap");
    next += member.part_count;
  }
  SHOAL_CHECK(next == plan.value_count, "values without an owner");
}

void begin_attempt(Turn& turn, const RoundKey& key, ReduceIndex reduce) {
  RoundStage& record = stage_of(turn.round(key), reduce);
  ++record.attempt;
  record.attempt_started_at = turn.now();
  ReduceTimers& timers = turn.volatile_state().timers[key.job].reduces[reduce];
  timers.failures.clear();
  timers.first_failure_at.reset();
}

void forget_vote(ContributionRecord& contribution) {
  contribution.average = {};
  contribution.left_out = false;
  contribution.squares.clear();
  contribution.disputed.clear();
}

void send_plan(Turn& turn, const ReducePlan& plan) {
  for (const ReduceMember& member : plan.members) {
    const ReplicaRecord& replica = turn.state().replicas.at(member.replica);
    if (replica.state == ReplicaState::kServing && !member.reducer) {
      transition(turn, member.replica, ReplicaState::kAveraging);
    }
    turn.tell(member.replica, plan);
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
  timers.reduces.clear();
}

// Those who go on with this round after an abort, the absent ones when they are back.
std::vector<ReplicaId> holders_and_absent(const State& state, const RoundKey& key) {
  const JobRecord& job = state.jobs.at(key.job);
  std::vector<ReplicaId> all = holders(state, job);
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    for (const ReplicaId id : absent_holders(state, job, stage)) {
      const ContributionRecord* part = state.contributions.find({key, id});
      if (part != nullptr && part->state != ContributionState::kLost) all.push_back(id);
    }
  }
  return all;
}

// Orders to train on after an abort, as `there` is then sorted: whoever is late in an asynchronous
// round comes last and goes on with the lease that it has.
std::vector<OpenRound> enlist_again(Turn& turn, const RoundKey& key,
                                    std::vector<ReplicaId>& there) {
  const auto late = std::stable_partition(there.begin(), there.end(), [&](ReplicaId replica) {
    const ContributionRecord* known = turn.state().contributions.find({key, replica});
    return known == nullptr || known->leases.empty() ||
           !is_late(turn.state().jobs.at(key.job), *known);
  });
  std::vector<OpenRound> orders = enlist(turn, key, {there.begin(), late});
  for (auto it = late; it != there.end(); ++it) {
    ContributionRecord& contribution = turn.contribution(key, *it);
    contribution.state = ContributionState::kTraining;
    contribution.reject_reason = RejectReason::kNone;
    orders.push_back(order_of(turn.state(), turn.now(), turn.state().rounds.at(key), *it));
  }
  return orders;
}

// Only the owner of a part can leave somebody out, and only a member of its own reduce.
void note_left_out(Turn& turn, const ContributionRecord& voter, const Vote& vote) {
  if (voter.part_count == 0) return;
  for (const ReplicaId replica : vote.seen.left_out) {
    const ContributionRecord* named = turn.state().contributions.find({vote.key, replica});
    const bool member =
        named != nullptr && reduce_index(*named) == reduce_index(voter) && named->member_index >= 0;
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
  if (!known.reducer || counted) return;
  ContributionRecord& contribution = turn.contribution(vote.key, known.replica);
  contribution.voted_at = turn.now();
  contribution.stats.sent += vote.stats.sent;
  contribution.stats.received += vote.stats.received;
  contribution.stats.reduce_s = vote.stats.reduce_s;
  turn.job(vote.key.job).bytes_sent += vote.stats.sent;
}

// Groups that are late are not waited for.
void give_up_late(Turn& turn, const RoundKey& key, const std::vector<bool>& agrees) {
  const State& state = turn.state();
  const auto limit =
      groups_limit(state.rounds.at(key).sealed_at, agreed_at(state, key, agrees), turn.options());
  if (!limit) return;
  for (std::size_t group = 0; group < agrees.size(); ++group) {
    if (agrees[group] || state.rounds.at(key).stages[group].given_up) continue;
    if (turn.now() < *limit) return turn.look_again(key.job, *limit);
    give_up_group(turn, key, static_cast<ReduceIndex>(group), to_string(AbortReason::kTimeSpent));
  }
}

std::int64_t count_in_average(const State& state, const RoundKey& key, ReduceIndex reduce,
                              const std::vector<ReplicaId>& left_out) {
  const std::vector<ReplicaId> members = members_of(state, key, reduce);
  return std::ranges::count_if(members, [&](ReplicaId id) {
    return !averages_only(state, key, id) && !std::ranges::count(left_out, id);
  });
}

// Of each stage, or of all groups together. Of a group that gave up what the dead trained is lost
// with them.
bool enough_take_part(Turn& turn, const RoundKey& key, const std::vector<bool>& agrees,
                      const std::vector<ReplicaId>& left_out) {
  const bool in_groups = averages_in_groups(turn.state().jobs.at(key.job));
  const std::int64_t wanted = turn.state().jobs.at(key.job).spec.swarm.min_replicas;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < agrees.size(); ++i) {
    const auto reduce = static_cast<ReduceIndex>(i);
    if (!agrees[i]) drop_dead_members(turn, key, reduce);
    const std::int64_t here = count_in_average(turn.state(), key, reduce, left_out);
    if (!in_groups && here < wanted) return false;
    all += here;
  }
  return all >= wanted;
}

// Commits when nothing is waited for any more. `left_out`: of the reduces that agree.
void finish(Turn& turn, const RoundKey& key, const std::vector<Digest>& averages,
            const std::vector<bool>& agrees, const std::vector<ReplicaId>& left_out) {
  const std::vector<RoundStage>& reduces = turn.state().rounds.at(key).stages;
  for (std::size_t i = 0; i < agrees.size(); ++i) {
    if (!agrees[i] && !reduces[i].given_up) return;
  }
  const bool any = std::find(agrees.begin(), agrees.end(), true) != agrees.end();
  if (!any) return abort_round(turn, key, AbortReason::kAttemptsSpent);
  if (!enough_take_part(turn, key, agrees, left_out)) {
    return abort_round(turn, key, AbortReason::kBelowMinReplicas);
  }
  // The votes came before another group began its next attempt.
  if (turn.state().rounds.at(key).state == RoundState::kReducing) {
    transition(turn, key, RoundState::kVoting);
  }
  reject_left_out(turn, key, left_out);
  commit(turn, key, averages);
}

// The result is there already: an audit is no attempt to get one.
void start_audit(Turn& turn, const RoundKey& key, ReduceIndex reduce,
                 const std::vector<AuditedRange>& audited) {
  transition(turn, key, RoundState::kSealed);
  transition(turn, key, RoundState::kReducing);
  stage_of(turn.round(key), reduce).audited = audited;
  begin_attempt(turn, key, reduce);
  for (const ReplicaId member : members_of(turn.state(), key, reduce)) {
    ContributionRecord& contribution = turn.contribution(key, member);
    contribution.state = ContributionState::kMember;
    forget_vote(contribution);
  }
  send_plan(turn, plan_of(turn.state(), key, reduce));
}

// All agree. Whether it may commit is another question.
AttemptDecision look_closer(Turn& turn, const RoundKey& key, ReduceIndex reduce,
                            const AttemptInput& input, const AttemptDecision& agreed) {
  exclude(turn, agreed);
  const Verification found = verify(turn, key, reduce);
  if (found.verdict == Verdict::kVoid) return void_attempt(input, turn.options(), found.reason);
  if (found.verdict == Verdict::kSound) return agreed;
  AttemptDecision wait;
  if (found.verdict == Verdict::kAudit) start_audit(turn, key, reduce, found.audited);
  if (found.verdict == Verdict::kWait) wait.look_again_at = found.look_again_at;
  return wait;
}

}  // namespace

bool any_usable(const State& state, const RoundKey& key, const std::vector<ReplicaId>& members) {
  return std::any_of(members.begin(), members.end(), [&](ReplicaId replica) {
    return state.contributions.at({key, replica}).weight > 0;
  });
}

void start_attempt(Turn& turn, const RoundKey& key, ReduceIndex reduce,
                   const std::vector<ReplicaId>& members) {
  SHOAL_CHECK(!members.empty(), "an average of nobody");
  dismiss_reducers(turn, key, reduce);
  const StageIndex stage = stage_of_reduce(turn.state().jobs.at(key.job), reduce);
  Lineup lineup = line_up(turn.state(), turn.now(), key.job, stage, members);
  take_parts_from_barred(stage_of(turn.state().rounds.at(key), reduce).barred, lineup);
  add_reducers(turn, key, stage, lineup);
  const JobRecord& job = turn.state().jobs.at(key.job);
  RoundStage& record = stage_of(turn.round(key), reduce);
  record.choice = lineup.choice;
  record.frame_values = lineup.frame_values;
  record.entropy_coding = lineup.entropy_coding;
  record.momentum_holders = momentum_holders(turn.state(), job, stage);
  warn_of_lost_momentum(turn, job, stage, record.momentum_holders);
  record.audited.clear();
  record.suspects.clear();
  begin_attempt(turn, key, reduce);
  ++turn.volatile_state().timers[key.job].reduces[reduce].attempts;

  std::int32_t index = 0;
  for (const ReplicaId member : lineup.members) {
    ContributionRecord& contribution = turn.contribution(key, member);
    contribution.state = ContributionState::kMember;
    contribution.member_index = index++;
    forget_vote(contribution);
  }
  ReducePlan plan = plan_of(turn.state(), key, reduce);
  if (!keep_parts(turn.state(), plan, stage, reachable_in(lineup))) cut_parts(plan, lineup);
  check_parts(plan);
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
  const RoundStage& reduce = reduce_of(*round, *known);
  if (vote.attempt != reduce.attempt || reduce.given_up) return;
  if (round->state == RoundState::kCommitted) return count_late(turn, vote, *known);
  if (known->state != ContributionState::kMember) return;  // said twice
  const bool running = round->state == RoundState::kReducing || round->state == RoundState::kVoting;
  if (!running) return;
  note_left_out(turn, *known, vote);
  ContributionRecord& contribution = turn.contribution(vote.key, replica);
  contribution.state = ContributionState::kVoted;
  contribution.average = vote.average;
  contribution.squares = vote.seen.squares;
  contribution.disputed = vote.seen.disputed;
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
  if (failed.attempt != reduce_of(*round, *known).attempt) return;
  if (known->state != ContributionState::kMember) return;
  ReduceTimers& timers = turn.volatile_state().timers[failed.key.job].reduces[reduce_index(*known)];
  if (!timers.first_failure_at) timers.first_failure_at = turn.now();
  timers.failures.put(replica, failed);
}

// A reduce that agrees waits for the others: its votes stand, and it is judged the same way again.
void judge(Turn& turn, const RoundKey& key) {
  const ReduceIndex count = reduce_count(turn.state(), key);
  std::vector<Digest> averages(static_cast<std::size_t>(count));
  std::vector<bool> agrees(averages.size(), false);
  std::vector<ReplicaId> left_out;
  for (ReduceIndex reduce = 0; reduce < count; ++reduce) {
    const RoundRecord& round = turn.state().rounds.at(key);
    if (stage_of(round, reduce).given_up) continue;
    const AttemptInput input = attempt_input(turn, round, reduce);
    AttemptDecision decision = judge_attempt(input, turn.options());
    if (decision.verdict == AttemptVerdict::kCommit) {
      decision = look_closer(turn, key, reduce, input, decision);
    }
    if (decision.look_again_at) turn.look_again(key.job, *decision.look_again_at);
    switch (decision.verdict) {
      case AttemptVerdict::kWait:
        break;
      case AttemptVerdict::kCommit:
        averages[static_cast<std::size_t>(reduce)] = decision.average;
        agrees[static_cast<std::size_t>(reduce)] = true;
        left_out.insert(left_out.end(), decision.left_out.begin(), decision.left_out.end());
        break;
      case AttemptVerdict::kRetry:
        if (!next_attempt(turn, key, reduce, decision)) return;
        break;
      case AttemptVerdict::kAbort:
        exclude(turn, decision);
        if (!give_up(turn, key, reduce, AbortReason::kAttemptsSpent)) return;
        break;
    }
  }
  if (averages_in_groups(turn.state().jobs.at(key.job))) give_up_late(turn, key, agrees);
  finish(turn, key, averages, agrees, left_out);
}

void abort_round(Turn& turn, const RoundKey& key, AbortReason reason) {
  for (ReduceIndex reduce = 0; reduce < reduce_count(turn.state(), key); ++reduce) {
    drop_dead_members(turn, key, reduce);
    dismiss_reducers(turn, key, reduce);
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
  auto there = holders_and_absent(turn.state(), key);
  const std::vector<OpenRound> orders = enlist_again(turn, key, there);
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
    if (!is_present(turn.state(), there[i])) continue;  // it hears of it when it is back
    turn.tell(there[i], AbortRound{key, reason, orders[i]});
  }
}

}  // namespace shoal::coordinator
