#include "coordinator/core/rounds/attempts.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/core/checkpoints/momentum.h"
#include "coordinator/core/decisions/attempt.h"
#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/rounds/commits.h"
#include "coordinator/core/rounds/membership_plan.h"
#include "coordinator/core/rounds/nonfinite.h"
#include "coordinator/core/rounds/orders.h"
#include "coordinator/core/rounds/pipeline_view.h"
#include "coordinator/core/rounds/round_groups.h"
#include "coordinator/core/rounds/verification.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"
#include "outer_opt/core/round/lease_runs.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::coordinator {
namespace {

constexpr std::int32_t kAbortsMax = 10;  // of one round number; then the job fails

AttemptInput attempt_input(const Transaction& tx, const RoundRecord& round, ReduceIndex reduce) {
  const State& state = tx.state();
  const ReduceTimers* timers = state.timers.at(round.key.job).reduces.find(reduce);
  AttemptInput input;
  input.now = tx.now();
  input.started_at = reduce_at(round, reduce).attempt_started_at;
  const Duration limit = attempt_time_limit(state, round, reduce);
  input.time_limit = tx.deadline(input.started_at, limit) - input.started_at;
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
    member.excluded = contribution.excluded;
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
  return reason == AttemptReason::kSilent ? ReplicaFailure::kUnresponsive
                                          : ReplicaFailure::kPeerUnreachable;
}

std::string of_reduce(const JobRecord& job, ReduceIndex reduce) {
  if (averages_in_groups(job)) return " of group " + std::to_string(reduce);
  return job.stages.size() == 1 ? "" : " of stage " + std::to_string(reduce);
}

// The first complaint about a member that must go (about any, where nobody must), in its words.
std::string complaint(const State& state, const RoundKey& key, ReduceIndex reduce,
                      const std::vector<ReplicaId>& exclude) {
  const ReduceTimers* timers = state.timers.at(key.job).reduces.find(reduce);
  if (timers == nullptr) return "";
  for (const auto& [replica, failed] : timers->failures) {
    const bool concerns = exclude.empty() || std::ranges::count(exclude, failed.lost) > 0;
    if (concerns && !failed.detail.empty()) return "; " + to_string(replica) + ": " + failed.detail;
  }
  return "";
}

std::string reason_of(const State& state, const RoundKey& key, ReduceIndex reduce,
                      const AttemptDecision& decision) {
  return to_string(decision.reason) + complaint(state, key, reduce, decision.exclude);
}

void exclude(Transaction& tx, const RoundKey& key, ReduceIndex reduce,
             const AttemptDecision& decision) {
  exclude_replicas(tx, decision.exclude, failure_for(decision.reason),
                   "excluded from the reduce: " + reason_of(tx.state(), key, reduce, decision));
}

bool averages_only(const State& state, const RoundKey& key, ReplicaId member) {
  return state.contributions.at({key, member}).reducer;
}

// The live members that hold a state, in this reduce or in all groups.
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

// This reduce has no result. In groups, the round continues without the group; otherwise the round
// is aborted. False: it was.
bool give_up(Transaction& tx, const RoundKey& key, ReduceIndex reduce, AbortReason reason) {
  if (averages_in_groups(tx.state().jobs.at(key.job))) {
    give_up_group(tx, key, reduce, to_string(reason));
    return true;
  }
  abort_round(tx, key, reason);
  return false;
}

// Its leased sequences return to the ledger, but for those that made its values not finite: nobody
// trains them again.
void lose_contribution(Transaction& tx, const RoundKey& key, ReplicaId replica) {
  JobRecord& job = tx.job(key.job);
  ContributionRecord& contribution = tx.contribution(key, replica);
  const bool is_broken = contribution.reject_reason == RejectReason::kNonFinite;
  const std::vector<DataLease> back =
      is_broken ? untrained_leases(job, contribution) : contribution.leases;
  give_back({job.next_sequence, job.returned}, back);
  contribution.leases = outer_opt::without(contribution.leases, back);
  contribution.state = ContributionState::kLost;
}

// Dead and absent members leave the plan. An absent member keeps what it has trained, and counts in
// this round if it is back before the round commits.
void drop_dead_members(Transaction& tx, const RoundKey& key, ReduceIndex reduce) {
  for (const ReplicaId replica : members_of(tx.state(), key, reduce)) {
    if (is_present(tx.state(), replica)) continue;
    ContributionRecord& contribution = tx.contribution(key, replica);
    const bool reported = contribution.reported_at.ns != 0;
    contribution.state = reported ? ContributionState::kReported : ContributionState::kTraining;
    contribution.member_index = -1;
    contribution.average = {};
    contribution.voted_at = {};
    contribution.weight = 0;
    if (!is_live(tx.state(), replica)) lose_contribution(tx, key, replica);
  }
}

// False: the round was aborted.
bool next_attempt(Transaction& tx, const RoundKey& key, ReduceIndex reduce,
                  const AttemptDecision& decision) {
  exclude(tx, key, reduce, decision);
  drop_dead_members(tx, key, reduce);
  auto members = members_of(tx.state(), key, reduce);
  std::erase_if(members, [&](ReplicaId id) { return averages_only(tx.state(), key, id); });
  const JobRecord& job = tx.state().jobs.at(key.job);
  if (taking_part(tx.state(), key, reduce) < job.spec.swarm.min_replicas) {
    abort_round(tx, key, AbortReason::kBelowMinReplicas);
    return false;
  }
  if (!any_usable(tx.state(), key, members)) {
    return give_up(tx, key, reduce, AbortReason::kNoUsableContribution);
  }
  transition(tx, key, RoundState::kFrozen);
  transition(tx, key, RoundState::kReducing);
  tx.event(Severity::kWarning, event_kind::kRoundAttempt, {.job = key.job, .round = key.round},
           "round " + std::to_string(key.round) + of_reduce(job, reduce) + ": next attempt with " +
               std::to_string(members.size()) + " members (" +
               reason_of(tx.state(), key, reduce, decision) + ")");
  start_attempt(tx, key, reduce, members);
  return true;
}

// Reducers of the last attempt are members of the next one only if its plan names them.
void dismiss_reducers(Transaction& tx, const RoundKey& key, ReduceIndex reduce) {
  for (const ReplicaId member : members_of(tx.state(), key, reduce)) {
    if (!averages_only(tx.state(), key, member)) continue;
    ContributionRecord& contribution = tx.contribution(key, member);
    contribution.state = ContributionState::kLost;
    contribution.member_index = -1;
    contribution.voted_at = {};
  }
}

void add_reducers(Transaction& tx, const RoundKey& key, StageIndex stage,
                  const MembershipPlan& membership) {
  for (std::size_t i = 0; i < membership.members.size(); ++i) {
    const ReplicaId replica = membership.members[i];
    if (!membership.links[i].reducer || tx.state().contributions.contains({key, replica})) continue;
    ContributionRecord record;
    record.key = key;
    record.replica = replica;
    record.agent = tx.state().replicas.at(replica).agent;
    record.stage = stage;
    record.reducer = true;
    tx.add(std::move(record));
  }
}

// A barred member owns no part, unless no other member can.
void take_parts_from_barred(const std::vector<ReplicaId>& barred, MembershipPlan& membership) {
  const MembershipPlan before = membership;
  bool left = false;
  for (std::size_t i = 0; i < membership.members.size(); ++i) {
    if (std::ranges::count(barred, membership.members[i]) > 0)
      membership.links[i].reachable = false;
    left |= membership.links[i].reachable;
  }
  if (!left) membership = before;
}

std::vector<bool> reachable_in(const MembershipPlan& membership) {
  std::vector<bool> reachable;
  for (const outer_opt::LinkedMember& member : membership.links)
    reachable.push_back(member.reachable);
  return reachable;
}

// A value without an owner would keep its old value; one with two owners would be averaged twice.
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

void begin_attempt(Transaction& tx, const RoundKey& key, ReduceIndex reduce) {
  Reduce& record = reduce_at(tx.round(key), reduce);
  ++record.attempt;
  record.attempt_started_at = tx.now();
  ReduceTimers& timers = tx.volatile_state().timers[key.job].reduces[reduce];
  timers.failures.clear();
  timers.first_failure_at.reset();
}

void forget_vote(ContributionRecord& contribution) {
  contribution.average = {};
  contribution.excluded = false;
  contribution.squares.clear();
  contribution.disputed.clear();
}

void send_plan(Transaction& tx, const ReducePlan& plan) {
  for (const ReduceMember& member : plan.members) {
    const ReplicaRecord& replica = tx.state().replicas.at(member.replica);
    if (replica.state == ReplicaState::kServing && !member.reducer) {
      transition(tx, member.replica, ReplicaState::kAveraging);
    }
    tx.tell(member.replica, plan);
  }
}

void reopen(Transaction& tx, const RoundKey& key, AbortReason reason) {
  const JobRecord& job = tx.state().jobs.at(key.job);
  transition(tx, key, RoundState::kOpen);
  RoundRecord& round = tx.round(key);
  ++round.aborts;
  round.abort_reason = reason;
  round.opened_at = tx.now();
  round.frozen_at = {};
  round.from_step = round.to_step;
  // With too few replicas the others do not train on, because they would drift further apart.
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
  JobTimers& timers = tx.volatile_state().timers[key.job];
  timers.close_sent = false;
  timers.reduces.clear();
}

// The replicas that continue with this round after an abort; absent ones do when they are back.
std::vector<ReplicaId> in_sync_and_absent(const State& state, const RoundKey& key) {
  const JobRecord& job = state.jobs.at(key.job);
  std::vector<ReplicaId> all = in_sync_replicas(state, job);
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    for (const ReplicaId id : absent_in_sync_replicas(state, job, stage)) {
      const ContributionRecord* part = state.contributions.find({key, id});
      if (part != nullptr && part->state != ContributionState::kLost) all.push_back(id);
    }
  }
  return all;
}

// The orders to keep training after an abort, in the order into which this function sorts `there`:
// a late replica of an asynchronous round comes last, and continues its lease.
std::vector<OpenRound> assign_data_again(Transaction& tx, const RoundKey& key,
                                         std::vector<ReplicaId>& there) {
  const auto late = std::stable_partition(there.begin(), there.end(), [&](ReplicaId replica) {
    const ContributionRecord* known = tx.state().contributions.find({key, replica});
    return known == nullptr || known->leases.empty() ||
           !is_late(tx.state().jobs.at(key.job), *known);
  });
  std::vector<OpenRound> orders = assign_data(tx, key, {there.begin(), late});
  for (auto it = late; it != there.end(); ++it) {
    ContributionRecord& contribution = tx.contribution(key, *it);
    contribution.state = ContributionState::kTraining;
    contribution.reject_reason = RejectReason::kNone;
    orders.push_back(order_of(tx.state(), tx.now(), tx.state().rounds.at(key), *it));
  }
  return orders;
}

// Only the owner of a part can exclude a member, and only one of its own reduce.
void note_excluded(Transaction& tx, const ContributionRecord& voter, const Vote& vote) {
  if (voter.part_count == 0) return;
  for (const ReplicaId replica : vote.seen.excluded) {
    const ContributionRecord* named = tx.state().contributions.find({vote.key, replica});
    const bool member =
        named != nullptr && reduce_index(*named) == reduce_index(voter) && named->member_index >= 0;
    if (member && !named->excluded) tx.contribution(vote.key, replica).excluded = true;
  }
}

// No misbehavior, so no violation: the average was made without them.
void reject_excluded(Transaction& tx, const RoundKey& key, const std::vector<ReplicaId>& excluded) {
  for (const ReplicaId replica : excluded) {
    ContributionRecord& contribution = tx.contribution(key, replica);
    contribution.reject_reason = RejectReason::kExcluded;
    contribution.weight = 0;
  }
}

// A reducer is done when its last average was sent; the others may have committed by then.
void count_late(Transaction& tx, const Vote& vote, const ContributionRecord& known) {
  const bool counted = known.voted_at.ns != 0 || known.member_index < 0;
  if (!known.reducer || counted) return;
  ContributionRecord& contribution = tx.contribution(vote.key, known.replica);
  contribution.voted_at = tx.now();
  contribution.stats.sent += vote.stats.sent;
  contribution.stats.received += vote.stats.received;
  contribution.stats.reduce_s = vote.stats.reduce_s;
  tx.job(vote.key.job).bytes_sent += vote.stats.sent;
}

// The round does not wait for late groups.
void give_up_late(Transaction& tx, const RoundKey& key, const std::vector<bool>& agrees) {
  const State& state = tx.state();
  const auto limit =
      groups_limit(state.rounds.at(key).frozen_at, agreed_at(state, key, agrees), tx.options());
  if (!limit) return;
  for (std::size_t group = 0; group < agrees.size(); ++group) {
    if (agrees[group] || state.rounds.at(key).reduces[group].given_up) continue;
    if (tx.now() < *limit) return tx.schedule_wakeup(key.job, *limit);
    give_up_group(tx, key, static_cast<ReduceIndex>(group), to_string(AbortReason::kTimeSpent));
  }
}

std::int64_t count_in_average(const State& state, const RoundKey& key, ReduceIndex reduce,
                              const std::vector<ReplicaId>& excluded) {
  const std::vector<ReplicaId> members = members_of(state, key, reduce);
  return std::ranges::count_if(members, [&](ReplicaId id) {
    return !averages_only(state, key, id) && !std::ranges::count(excluded, id);
  });
}

// Judged per stage, or over all groups together. In a group that gave up, the progress of dead
// members is lost with them.
bool enough_take_part(Transaction& tx, const RoundKey& key, const std::vector<bool>& agrees,
                      const std::vector<ReplicaId>& excluded) {
  const bool in_groups = averages_in_groups(tx.state().jobs.at(key.job));
  const std::int64_t wanted = tx.state().jobs.at(key.job).spec.swarm.min_replicas;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < agrees.size(); ++i) {
    const auto reduce = static_cast<ReduceIndex>(i);
    if (!agrees[i]) drop_dead_members(tx, key, reduce);
    const std::int64_t here = count_in_average(tx.state(), key, reduce, excluded);
    if (!in_groups && here < wanted) return false;
    all += here;
  }
  return all >= wanted;
}

// Commits when the round waits for nothing more. `excluded`: those of the reduces that agree.
void finish(Transaction& tx, const RoundKey& key, const std::vector<Digest>& averages,
            const std::vector<bool>& agrees, const std::vector<ReplicaId>& excluded) {
  const std::vector<Reduce>& reduces = tx.state().rounds.at(key).reduces;
  for (std::size_t i = 0; i < agrees.size(); ++i) {
    if (!agrees[i] && !reduces[i].given_up) return;
  }
  const bool any = std::find(agrees.begin(), agrees.end(), true) != agrees.end();
  if (!any) return abort_round(tx, key, AbortReason::kAttemptsSpent);
  if (!enough_take_part(tx, key, agrees, excluded)) {
    return abort_round(tx, key, AbortReason::kBelowMinReplicas);
  }
  // The votes came before another group began its next attempt.
  if (tx.state().rounds.at(key).state == RoundState::kReducing) {
    transition(tx, key, RoundState::kVoting);
  }
  reject_excluded(tx, key, excluded);
  commit(tx, key, averages);
}

// The result is there already: an audit is no attempt to get one.
void start_audit(Transaction& tx, const RoundKey& key, ReduceIndex reduce,
                 const std::vector<AuditedRange>& audited) {
  transition(tx, key, RoundState::kFrozen);
  transition(tx, key, RoundState::kReducing);
  reduce_at(tx.round(key), reduce).audited = audited;
  begin_attempt(tx, key, reduce);
  for (const ReplicaId member : members_of(tx.state(), key, reduce)) {
    ContributionRecord& contribution = tx.contribution(key, member);
    contribution.state = ContributionState::kMember;
    forget_vote(contribution);
  }
  send_plan(tx, plan_of(tx.state(), key, reduce));
}

// All agree. Whether it may commit is another question.
AttemptDecision look_closer(Transaction& tx, const RoundKey& key, ReduceIndex reduce,
                            const AttemptInput& input, const AttemptDecision& agreed) {
  exclude(tx, key, reduce, agreed);
  const Verification found = verify(tx, key, reduce);
  if (found.verdict == Verdict::kVoid) return void_attempt(input, tx.options(), found.reason);
  if (found.verdict == Verdict::kSound) return agreed;
  AttemptDecision wait;
  if (found.verdict == Verdict::kAudit) start_audit(tx, key, reduce, found.audited);
  if (found.verdict == Verdict::kWait) wait.wakeup_at = found.wakeup_at;
  return wait;
}

}  // namespace

bool any_usable(const State& state, const RoundKey& key, const std::vector<ReplicaId>& members) {
  return std::any_of(members.begin(), members.end(), [&](ReplicaId replica) {
    return state.contributions.at({key, replica}).weight > 0;
  });
}

void start_attempt(Transaction& tx, const RoundKey& key, ReduceIndex reduce,
                   const std::vector<ReplicaId>& members) {
  SHOAL_CHECK(!members.empty(), "an average of nobody");
  dismiss_reducers(tx, key, reduce);
  const StageIndex stage = stage_of_reduce(tx.state().jobs.at(key.job), reduce);
  MembershipPlan membership = plan_membership(tx.state(), tx.now(), key.job, stage, members);
  take_parts_from_barred(reduce_at(tx.state().rounds.at(key), reduce).barred, membership);
  add_reducers(tx, key, stage, membership);
  const JobRecord& job = tx.state().jobs.at(key.job);
  Reduce& record = reduce_at(tx.round(key), reduce);
  record.choice = membership.choice;
  record.frame_values = membership.frame_values;
  record.entropy_coding = membership.entropy_coding;
  record.momentum_holders = momentum_holders(tx.state(), job, stage);
  warn_of_lost_momentum(tx, job, stage, record.momentum_holders);
  record.audited.clear();
  record.suspects.clear();
  begin_attempt(tx, key, reduce);
  ++tx.volatile_state().timers[key.job].reduces[reduce].attempts;

  std::int32_t index = 0;
  for (const ReplicaId member : membership.members) {
    ContributionRecord& contribution = tx.contribution(key, member);
    contribution.state = ContributionState::kMember;
    contribution.member_index = index++;
    forget_vote(contribution);
  }
  ReducePlan plan = plan_of(tx.state(), key, reduce);
  if (!keep_parts(tx.state(), plan, stage, reachable_in(membership))) cut_parts(plan, membership);
  check_parts(plan);
  for (const ReduceMember& member : plan.members) {
    ContributionRecord& contribution = tx.contribution(key, member.replica);
    contribution.part_first = member.part_first;
    contribution.part_count = member.part_count;
  }
  send_plan(tx, plan);
}

void on_vote(Transaction& tx, ReplicaId replica, const Vote& vote) {
  const ContributionRecord* known = tx.state().contributions.find({vote.key, replica});
  const RoundRecord* round = tx.state().rounds.find(vote.key);
  if (known == nullptr || round == nullptr) return;
  const Reduce& reduce = reduce_of(*round, *known);
  if (vote.attempt != reduce.attempt || reduce.given_up) return;
  if (round->state == RoundState::kCommitted) return count_late(tx, vote, *known);
  if (known->state != ContributionState::kMember) return;  // said twice
  const bool running = round->state == RoundState::kReducing || round->state == RoundState::kVoting;
  if (!running) return;
  note_excluded(tx, *known, vote);
  ContributionRecord& contribution = tx.contribution(vote.key, replica);
  contribution.state = ContributionState::kVoted;
  contribution.average = vote.average;
  contribution.squares = vote.seen.squares;
  contribution.disputed = vote.seen.disputed;
  contribution.voted_at = tx.now();
  contribution.stats.sent += vote.stats.sent;
  contribution.stats.received += vote.stats.received;
  contribution.stats.reduce_s = vote.stats.reduce_s;
  if (round->state == RoundState::kReducing) transition(tx, vote.key, RoundState::kVoting);
}

void on_reduce_failed(Transaction& tx, ReplicaId replica, const ReduceFailed& failed) {
  const ContributionRecord* known = tx.state().contributions.find({failed.key, replica});
  const RoundRecord* round = tx.state().rounds.find(failed.key);
  if (known == nullptr || round == nullptr) return;
  if (failed.attempt != reduce_of(*round, *known).attempt) return;
  if (known->state != ContributionState::kMember) return;
  ReduceTimers& timers = tx.volatile_state().timers[failed.key.job].reduces[reduce_index(*known)];
  if (!timers.first_failure_at) timers.first_failure_at = tx.now();
  timers.failures.put(replica, failed);
}

// A reduce that agrees waits for the other reduces. Its votes stay, and the same judgment follows
// again.
void judge(Transaction& tx, const RoundKey& key) {
  const ReduceIndex count = reduce_count(tx.state(), key);
  std::vector<Digest> averages(static_cast<std::size_t>(count));
  std::vector<bool> agrees(averages.size(), false);
  std::vector<ReplicaId> excluded;
  for (ReduceIndex reduce = 0; reduce < count; ++reduce) {
    const RoundRecord& round = tx.state().rounds.at(key);
    if (reduce_at(round, reduce).given_up) continue;
    const AttemptInput input = attempt_input(tx, round, reduce);
    AttemptDecision decision = judge_attempt(input, tx.options());
    if (decision.verdict == AttemptVerdict::kCommit) {
      decision = look_closer(tx, key, reduce, input, decision);
    }
    if (decision.wakeup_at) tx.schedule_wakeup(key.job, *decision.wakeup_at);
    switch (decision.verdict) {
      case AttemptVerdict::kWait:
        break;
      case AttemptVerdict::kCommit:
        averages[static_cast<std::size_t>(reduce)] = decision.average;
        agrees[static_cast<std::size_t>(reduce)] = true;
        excluded.insert(excluded.end(), decision.excluded.begin(), decision.excluded.end());
        break;
      case AttemptVerdict::kRetry:
        if (!next_attempt(tx, key, reduce, decision)) return;
        break;
      case AttemptVerdict::kAbort:
        exclude(tx, key, reduce, decision);
        if (!give_up(tx, key, reduce, AbortReason::kAttemptsSpent)) return;
        break;
    }
  }
  if (averages_in_groups(tx.state().jobs.at(key.job))) give_up_late(tx, key, agrees);
  finish(tx, key, averages, agrees, excluded);
}

void abort_round(Transaction& tx, const RoundKey& key, AbortReason reason) {
  for (ReduceIndex reduce = 0; reduce < reduce_count(tx.state(), key); ++reduce) {
    drop_dead_members(tx, key, reduce);
    dismiss_reducers(tx, key, reduce);
  }
  transition(tx, key, RoundState::kAborted);
  tx.event(Severity::kWarning, event_kind::kRoundAborted, {.job = key.job, .round = key.round},
           "round " + std::to_string(key.round) + " aborted (" + to_string(reason) +
               "); the progress is kept");
  reopen(tx, key, reason);
  std::string never_finite;
  if (reason == AbortReason::kNoUsableContribution)
    never_finite = why_never_finite(tx.state(), key);
  if (!never_finite.empty() || tx.state().rounds.at(key).aborts > kAbortsMax) {
    tx.volatile_state().timers[key.job].hopeless = std::move(never_finite);
    tx.job(key.job).failures_in_row = tx.options().failures_in_row_max + 1;
    return;
  }
  auto there = in_sync_and_absent(tx.state(), key);
  const std::vector<OpenRound> orders = assign_data_again(tx, key, there);
  for (const ReplicaId replica : there) {
    if (tx.state().replicas.at(replica).state == ReplicaState::kAveraging) {
      transition(tx, replica, ReplicaState::kServing);
    }
    ContributionRecord& contribution = tx.contribution(key, replica);
    contribution.member_index = -1;
    contribution.average = {};
  }
  refresh_view(tx, key.job);
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (!is_present(tx.state(), there[i])) continue;  // it hears of it when it is back
    tx.tell(there[i], AbortRound{key, reason, orders[i]});
  }
}

}  // namespace shoal::coordinator
