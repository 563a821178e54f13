#include "coordinator/core/rounds/commits.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/transfer_patience.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/decisions/arrivals.h"
#include "coordinator/core/decisions/common_state.h"
#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/device_failures.h"
#include "coordinator/core/replicas/drain.h"
#include "coordinator/core/replicas/evaluation.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/rounds/orders.h"
#include "coordinator/core/rounds/pipeline_view.h"
#include "coordinator/core/state/commit_proof.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/movement.h"
#include "coordinator/core/state/round_facts.h"
#include "outer_opt/core/round/lease_runs.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::coordinator {
namespace {

bool due(std::int64_t every_rounds, RoundNumber round, bool last) {
  return last || (every_rounds > 0 && round % every_rounds == 0);
}

// Members of all reduces, by reduce.
std::vector<ReplicaId> all_members(const State& state, const RoundKey& key) {
  std::vector<ReplicaId> all;
  for (ReduceIndex reduce = 0; reduce < reduce_count(state, key); ++reduce) {
    const auto members = members_of(state, key, reduce);
    all.insert(all.end(), members.begin(), members.end());
  }
  return all;
}

using Tails = FlatMap<ReplicaId, std::vector<DataLease>>;

void give_back_all(JobRecord& job, const std::vector<DataLease>& leases) {
  give_back({job.next_sequence, job.returned}, leases);
}

// The untrained rest of the leases of this contribution. With sync.overlap_steps its replica keeps
// training it; otherwise it returns to the ledger.
void settle_leases(Transaction& tx, ContributionRecord& contribution, Tails& tails) {
  JobRecord& job = tx.job(contribution.key.job);
  std::vector<DataLease> beyond = untrained_leases(job, contribution);
  contribution.leases = outer_opt::without(contribution.leases, beyond);
  const bool goes_on = job.spec.sync.overlap_steps > Steps(0);
  if (!goes_on) give_back_all(job, beyond);
  if (goes_on && !beyond.empty()) tails.put(contribution.replica, std::move(beyond));
}

// What is left of its leases carries over to the next round, or returns to the ledger.
void set_aside(JobRecord& job, ContributionRecord& contribution, Tails& tails) {
  if (is_late(job, contribution) && !contribution.leases.empty()) {
    tails.put(contribution.replica, contribution.leases);
  } else {
    give_back_all(job, contribution.leases);
  }
  contribution.leases.clear();
}

// A tail counts with the next round, when its replica is in it.
void carry_over(Transaction& tx, const RoundKey& next, const Tails& tails,
                const std::vector<ReplicaId>& followers) {
  for (const auto& [replica, tail] : tails) {
    const bool follows = std::find(followers.begin(), followers.end(), replica) != followers.end();
    if (follows) {
      contribution_in(tx, next, replica).leases = tail;
    } else {
      give_back_all(tx.job(next.job), tail);
    }
  }
}

// One of the sequences that a non-finite contribution was trained on may have made it so: they are
// not leased again. Its replica drops the rest of its leases.
void give_back_untrained(JobRecord& job, ContributionRecord& contribution) {
  const std::vector<DataLease> beyond = untrained_leases(job, contribution);
  contribution.leases = outer_opt::without(contribution.leases, beyond);
  give_back_all(job, beyond);
}

bool had_nothing(const ContributionRecord& contribution) {
  return contribution.reject_reason == RejectReason::kJoiner ||
         contribution.reject_reason == RejectReason::kNoTokens;
}

ContributionState ended(const JobRecord& job, const RoundRecord& round,
                        const ContributionRecord& contribution) {
  if (contribution.reducer) return ContributionState::kServed;
  if (is_late(job, contribution)) return ContributionState::kLate;
  if (had_nothing(contribution)) return ContributionState::kFollowed;
  if (contribution.weight == 0) return ContributionState::kRejected;
  return reduce_of(round, contribution).given_up ? ContributionState::kKept
                                                 : ContributionState::kCommitted;
}

// Bytes of all members; tokens and loss of the routers whose pseudo-gradient went into the average,
// or will go into the next one.
void count_contributions(Transaction& tx, const RoundKey& key, Tails& tails) {
  RoundRecord& round = tx.round(key);
  JobRecord& job = tx.job(key.job);
  double loss_sum = 0;
  for (const ReplicaId replica : all_members(tx.state(), key)) {
    ContributionRecord& contribution = tx.contribution(key, replica);
    const bool counts = contribution.weight > 0;
    contribution.state = ended(job, round, contribution);
    if (counts) note_device_works(tx, replica);
    job.bytes_sent += contribution.stats.sent;
    if (counts) {
      if (contribution.stage != 0) continue;
      settle_leases(tx, contribution, tails);
      const RoundReport& report = contribution.report;
      round.tokens += report.drawn;
      loss_sum += report.train_loss * static_cast<double>(report.drawn.n);
      continue;
    }
    if (contribution.reject_reason == RejectReason::kNonFinite) {
      give_back_untrained(job, contribution);
    } else {
      set_aside(job, contribution, tails);
    }
  }
  round.train_loss = round.tokens.n > 0 ? loss_sum / static_cast<double>(round.tokens.n) : 0;
}

// The round commits without those that were absent; what they had leased goes to others.
void lose_absent(Transaction& tx, const RoundKey& key) {
  for (const ReplicaId replica : round_replicas(tx.state(), key)) {
    const ContributionRecord& known = tx.state().contributions.at({key, replica});
    if (known.member_index >= 0 || !has_assigned_data(known)) continue;
    ContributionRecord& contribution = tx.contribution(key, replica);
    contribution.state = ContributionState::kLost;
    if (contribution.reject_reason == RejectReason::kNonFinite) {
      give_back_untrained(tx.job(key.job), contribution);
      continue;
    }
    give_back_all(tx.job(key.job), contribution.leases);
    contribution.leases.clear();
  }
}

// How far an asynchronous round brings the job.
void settle_arrivals(Transaction& tx, const RoundKey& key) {
  const JobRecord& job = tx.state().jobs.at(key.job);
  if (job.spec.sync.algorithm != SyncAlgorithm::kAsync) return;
  Arrivals arrivals;
  for (const ReplicaId replica : all_members(tx.state(), key)) {
    const auto& contribution = tx.state().contributions.at({key, replica});
    ++arrivals.replicas;
    if (contribution.weight == 0) continue;
    ++arrivals.contributions;
    arrivals.steps += contribution.report.steps.count();
  }
  const RoundRecord* before = committed_round(tx.state(), job);
  const std::int64_t carried = before == nullptr ? 0 : before->carried_steps;
  const Arrived arrived = count_arrivals(job.committed_step, carried, arrivals);
  RoundRecord& round = tx.round(key);
  round.from_step = job.committed_step;
  round.to_step = arrived.to_step;
  round.share = arrived.share;
  round.carried_steps = arrived.carried_steps;
}

// What the outer step of each stage begins with.
void note_bases(Transaction& tx, const RoundKey& key) {
  const JobRecord& job = tx.state().jobs.at(key.job);
  RoundRecord& round = tx.round(key);
  for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
    round.reduces.at(stage).base = job.stages[stage].anchor;
    round.reduces.at(stage).base_momentum = job.stages[stage].momentum;
  }
}

void advance_job_to(Transaction& tx, const RoundKey& key) {
  RoundRecord& round = tx.round(key);
  JobRecord& job = tx.job(key.job);
  SHOAL_CHECK(round.to_step >= job.committed_step, "a commit takes no step back");
  job.committed_round = key.round;
  job.committed_at = tx.now();
  job.committed_step = std::min(round.to_step, job.spec.train.steps);
  job.committed_tokens += round.tokens;
  round.job_tokens = job.committed_tokens;
  job.train_loss = round.train_loss;
  job.recut_from = {};
  for (JobStage& stage : job.stages) {
    stage.anchor = stage.momentum = {};  // known again when the outer steps were taken
  }
  job.failures_in_row = 0;
}

// Whether the replica took the step from the recorded state, with the committed average.
bool proves_its_state(const Reduce& stage, const ContributionRecord& contribution) {
  return stage.base && contribution.base == stage.base &&
         contribution.base_momentum == stage.base_momentum && contribution.added == stage.average;
}

void keep_settled(Transaction& tx, const RoundKey& key, StageIndex stage, const Digest& anchor,
                  const Digest& momentum) {
  const auto keep = [&](auto& of) { of.anchor = anchor, of.momentum = momentum; };
  keep(stage_of(tx.job(key.job), stage));
  keep(reduce_at(tx.round(key), stage));
}

// Fails joiners that took the state of a source which the stage did not agree on later.
void fail_deviating_joiners(Transaction& tx, const RoundKey& key, StageIndex stage) {
  const JobRecord& job = tx.state().jobs.at(key.job);
  const JobStage& settled = stage_of(job, stage);
  for (const ReplicaId id : in_sync_replicas(tx.state(), job, stage)) {
    const ReplicaRecord& replica = tx.state().replicas.at(id);
    const bool same = replica.anchor == settled.anchor && replica.momentum == settled.momentum;
    if (same || replica.held_round != key.round) continue;
    fail_replica(tx, id, ReplicaFailure::kDigestMismatch,
                 "its source held another state than its stage");
  }
}

// If all replicas that took the step are gone, joiners that took over their state count instead.
void settle_by_joiners(Transaction& tx, const RoundKey& key, StageIndex stage) {
  for (const ReplicaId id : in_sync_replicas(tx.state(), tx.state().jobs.at(key.job), stage)) {
    const ReplicaRecord& replica = tx.state().replicas.at(id);
    if (replica.held_round != key.round) continue;
    keep_settled(tx, key, stage, replica.anchor, replica.momentum);
    return fail_deviating_joiners(tx, key, stage);
  }
}

StateClaim claim_of(const State& state, const RoundKey& key, ReplicaId replica) {
  const ContributionRecord& said = state.contributions.at({key, replica});
  return {replica, said.anchor, said.momentum,
          proves_its_state(reduce_at(state.rounds.at(key), said.stage), said)};
}

// When no follower can prove its state, the replicas count that could and are gone or unreachable.
std::vector<StateClaim> claims_of(const State& state, const RoundKey& key, StageIndex stage,
                                  const std::vector<ReplicaId>& followers) {
  std::vector<StateClaim> claims, of_others;
  for (const ReplicaId id : all_members(state, key)) {
    const ContributionRecord& said = state.contributions.at({key, id});
    if (said.stage != stage || said.applied_at.ns == 0) continue;
    const bool follows = std::ranges::count(followers, id) > 0;
    (follows ? claims : of_others).push_back(claim_of(state, key, id));
  }
  if (std::ranges::any_of(claims, &StateClaim::proved)) return claims;
  std::ranges::copy_if(of_others, std::back_inserter(claims), &StateClaim::proved);
  return claims;
}

// Called when all live followers of a stage have reported their digests. A replica fails if it
// holds another state than the committed one. When no one can tell which state that is, all of them
// fail, and the stage begins again from a checkpoint.
void settle_state(Transaction& tx, const RoundKey& key, StageIndex stage,
                  const std::vector<ReplicaId>& followers) {
  if (followers.empty()) return settle_by_joiners(tx, key, stage);
  const StateDecision decision = decide_state(claims_of(tx.state(), key, stage, followers));
  const bool undecided = decision.verdict == StateVerdict::kUndecided;
  for (const ReplicaId replica : decision.odd) {
    if (!is_present(tx.state(), replica)) continue;
    fail_replica(tx, replica, ReplicaFailure::kDigestMismatch,
                 undecided
                     ? "replicas of its stage differ after the outer step, and none can prove "
                       "its state"
                     : "its anchor or outer momentum differs from that of the others after "
                       "the outer step");
  }
  if (!undecided) keep_settled(tx, key, stage, decision.anchor, decision.momentum);
  fail_deviating_joiners(tx, key, stage);
}

// In groups each replica has an anchor of its own; the job's is that of the first one.
void settle_first_anchor(Transaction& tx, const std::vector<ReplicaId>& followers) {
  if (followers.empty()) return;
  const ReplicaId first = *std::min_element(followers.begin(), followers.end());
  const ReplicaRecord& replica = tx.state().replicas.at(first);
  JobStage& stage = stage_of(tx.job(replica.job), replica.stage);
  stage.anchor = replica.anchor;
  stage.momentum = replica.momentum;
}

// The replica hears of the commit between two pieces of work, or when it is back.
Instant apply_deadline(const Transaction& tx, const RoundKey& key, ReplicaId id) {
  const ReplicaRecord& replica = tx.state().replicas.at(id);
  const Bytes size = state_size(tx.state().jobs.at(key.job), replica.stage);
  const Duration limit = stall_for(tx.options().apply_limit, size);
  const Instant told = std::max(tx.state().rounds.at(key).committed_at, replica.updated_at);
  return tx.deadline(told, std::max(limit, work_limit(tx.state(), id)));
}

// The outer step of one stage, until its digests are known.
void check_stage_applied(Transaction& tx, const RoundKey& key, StageIndex stage) {
  const State& state = tx.state();
  const bool in_groups = averages_in_groups(state.jobs.at(key.job));
  std::vector<ReplicaId> followers, waiting;
  for (const ReplicaId replica : all_members(state, key)) {
    if (state.contributions.at({key, replica}).stage != stage) continue;
    if (!is_present(state, replica) || !can_follow(state, key, replica)) continue;
    const bool applied = state.contributions.at({key, replica}).applied_at.ns != 0;
    (applied ? followers : waiting).push_back(replica);
  }
  if (waiting.empty()) {
    return in_groups ? settle_first_anchor(tx, followers) : settle_state(tx, key, stage, followers);
  }
  for (const ReplicaId replica : waiting) {
    const Instant limit = apply_deadline(tx, key, replica);
    if (tx.now() < limit) {
      tx.schedule_wakeup(key.job, limit);
    } else {
      fail_replica(tx, replica, ReplicaFailure::kUnresponsive, "it did not take the outer step");
    }
  }
}

// The job ends or pauses here, so leases of the next round return to the ledger.
void take_back(Transaction& tx, const RoundKey& committed, const Tails& tails) {
  for (const auto& [replica, tail] : tails) {
    give_back_all(tx.job(committed.job), tail);
    ContributionRecord& contribution = tx.contribution(committed, replica);
    const bool late = contribution.state == ContributionState::kLate;
    if (late) contribution.state = ContributionState::kFollowed;
  }
}

// Opens the next round, with the replicas that follow to it, unless the job ends or pauses here.
void open_next(Transaction& tx, JobId id, const Tails& tails, std::vector<ReplicaId> followers) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (is_trained(job) || is_to_let_go(job)) {
    return take_back(tx, {id, job.epoch, job.committed_round}, tails);
  }
  open_round(tx, id);
  carry_over(tx, next_key(job), tails, followers);
  // A late replica has its lease already.
  if (job.spec.sync.algorithm == SyncAlgorithm::kAsync) {
    std::erase_if(followers, [&](ReplicaId replica) { return tails.contains(replica); });
  }
  assign_data(tx, next_key(job), followers);
}

// "4 replicas", "2 of 4 replicas" when the others only follow or keep what they have.
std::string who_committed(const State& state, const RoundKey& key) {
  std::size_t counted = 0, all = 0;
  for (const ReplicaId replica : all_members(state, key)) {
    const ContributionRecord& contribution = state.contributions.at({key, replica});
    if (contribution.reducer) continue;
    ++all;
    counted += contribution.state == ContributionState::kCommitted;
  }
  return std::to_string(counted) + (counted < all ? " of " + std::to_string(all) : "") +
         " replicas";
}

// The replicas that are present. An absent one catches up when it is back.
std::vector<ReplicaId> followers_of(const State& state, const RoundKey& key) {
  std::vector<ReplicaId> followers = all_members(state, key);
  std::erase_if(followers, [&](ReplicaId id) {
    return !is_present(state, id) || !can_follow(state, key, id);
  });
  return followers;
}

void say_committed(Transaction& tx, const RoundKey& key) {
  const State& state = tx.state();
  if (!has_events(state.jobs.at(key.job), state.rounds.at(key))) return;
  tx.event(Severity::kInfo, event_kind::kRoundCommitted, {.job = key.job, .round = key.round},
           "round " + std::to_string(key.round) + " committed by " + who_committed(state, key));
}

// The state of an absent replica is outdated now: nothing will ask for it again.
void drop_the_stale_absent(Transaction& tx, const RoundKey& key) {
  for (const ReplicaId replica : absent_replicas(tx.state(), key.job)) {
    if (can_follow(tx.state(), key, replica)) continue;
    fail_replica(tx, replica, ReplicaFailure::kStale, "a round was committed while it was absent");
  }
}

// A replica that served without a part in this round cannot follow.
void fail_the_stale(Transaction& tx, const RoundKey& key) {
  drop_the_stale_absent(tx, key);
  for (const ReplicaId replica : live_replicas(tx.state(), key.job)) {
    const ReplicaRecord& record = tx.state().replicas.at(replica);
    const bool serves =
        record.state == ReplicaState::kServing || record.state == ReplicaState::kAveraging;
    if (serves && !can_follow(tx.state(), key, replica)) {
      fail_replica(tx, replica, ReplicaFailure::kStale, "it was not part of the committed round");
    }
  }
}

RoundOutcome outcome_of(const Reduce& reduce, const ContributionRecord& contribution) {
  if (!reduce.given_up) return RoundOutcome::kAveraged;
  return contribution.weight > 0 ? RoundOutcome::kKept : RoundOutcome::kDropped;
}

}  // namespace

CommitRound commit_for(const State& state, Instant now, CommitRecord record, ReplicaId replica) {
  const RoundKey key = record.key;
  const ContributionRecord& own = state.contributions.at({key, replica});
  const Reduce& reduce = reduce_of(state.rounds.at(key), own);
  CommitRound order;
  order.key = key;
  order.attempt = reduce.attempt;
  order.average = reduce.average;
  const JobRecord& job = state.jobs.at(key.job);
  const RoundRecord& round = state.rounds.at(key);
  order.outer_lr = round.outer_lr;
  order.record = std::move(record);
  if (job.spec.sync.algorithm == SyncAlgorithm::kAsync) {
    const auto terms = terms_of(job.spec, round.share, round.from_step, round.to_step);
    order.share = terms.share, order.decay = terms.decay, order.push = terms.push;
  }
  order.outcome = outcome_of(reduce, own);
  order.evaluate = slice_of(state, key, own);
  const RoundKey next{key.job, key.epoch, key.round + 1};
  const ContributionRecord* contribution = state.contributions.find({next, replica});
  order.last = contribution == nullptr || !has_assigned_data(*contribution);
  if (!order.last) order.next = order_of(state, now, state.rounds.at(next), replica);
  order.keeps = !order.last && own.state == ContributionState::kLate;
  return order;
}

void commit(Transaction& tx, const RoundKey& key, const std::vector<Digest>& averages) {
  SHOAL_CHECK(key == next_key(tx.state().jobs.at(key.job)), "rounds commit one after the other");
  SHOAL_CHECK(std::ssize(averages) == reduce_count(tx.state(), key));
  transition(tx, key, RoundState::kCommitted);
  for (std::size_t reduce = 0; reduce < averages.size(); ++reduce) {
    tx.round(key).reduces[reduce].average = averages[reduce];
  }
  tx.round(key).committed_at = tx.now();
  Tails tails;
  count_contributions(tx, key, tails);
  lose_absent(tx, key);
  settle_arrivals(tx, key);
  const JobRecord& job = tx.state().jobs.at(key.job);
  const RoundKey before{key.job, key.epoch, job.committed_round};
  if (!averages_in_groups(job)) note_bases(tx, key);
  advance_job_to(tx, key);
  if (tx.state().rounds.contains(before)) tx.drop_round(before);
  release_drained_at_commit(tx, key.job);

  const std::vector<ReplicaId> followers = followers_of(tx.state(), key);
  if (due(job.spec.eval.every_rounds, key.round, is_trained(job))) {
    share_evaluation(tx, key, followers);
  }
  open_next(tx, key.job, tails, followers);
  refresh_view(tx, key.job);
  const SignedRecords records(tx.state(), job, commit_record(tx.state(), job));
  for (const ReplicaId replica : followers) {
    tx.tell(replica, commit_for(tx.state(), tx.now(), records.of(replica), replica));
  }
  say_committed(tx, key);
  fail_the_stale(tx, key);
}

void on_applied(Transaction& tx, ReplicaId replica, const Applied& applied) {
  if (!can_follow(tx.state(), applied.key, replica)) return;
  const auto& known = tx.state().contributions.at({applied.key, replica});
  if (known.applied_at.ns != 0) return;  // said twice
  ContributionRecord& contribution = tx.contribution(applied.key, replica);
  contribution.anchor = applied.anchor;
  contribution.momentum = applied.momentum;
  contribution.base = applied.base;
  contribution.base_momentum = applied.base_momentum;
  contribution.added = applied.average;
  contribution.applied_at = tx.now();
  ReplicaRecord& record = tx.replica(replica);
  record.held_round = applied.key.round;
  record.anchor = applied.anchor;
  record.momentum = applied.momentum;
  if (record.state == ReplicaState::kAveraging) {
    transition(tx, replica, ReplicaState::kServing);
  }
  take_over_slices(tx, replica);
  const JobRecord& job = tx.state().jobs.at(record.job);
  if (averages_in_groups(job) || anchors_known(job)) renew_record(tx, replica);
}

namespace {

// From now on each holder can prove its state.
void renew_all_records(Transaction& tx, const JobRecord& job) {
  if (averages_in_groups(job)) return;  // each got its own with its outer step
  renew_records(tx, job.id, in_sync_replicas(tx.state(), job));
}

}  // namespace

void check_applied(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  const RoundRecord* round = committed_round(tx.state(), job);
  if (round == nullptr || anchors_known(job) || job.committed_round == 0) return;
  const RoundKey key = round->key;
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    if (!stage_of(job, stage).anchor) check_stage_applied(tx, key, stage);
  }
  if (anchors_known(job)) renew_all_records(tx, job);
  const bool wanted = job.spec.checkpoint.every_rounds > 0 && !is_trained(job) &&
                      due(job.spec.checkpoint.every_rounds, key.round, false);
  if (wanted && anchors_known(job)) request_checkpoint(tx, id, false);
}

}  // namespace shoal::coordinator
