#include "coordinator/core/rounds.h"

#include <algorithm>
#include <cmath>

#include "coordinator/core/decisions/balance.h"
#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/core/decisions/quorum.h"
#include "coordinator/core/event_kinds.h"
#include "coordinator/core/links.h"
#include "coordinator/core/machines.h"
#include "coordinator/core/membership.h"
#include "coordinator/core/pipeline_view.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/round_groups.h"
#include "coordinator/core/standing.h"
#include "outer_opt/core/round/clip.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::coordinator {
namespace {

RejectReason reject_reason(const ContributionRecord& contribution) {
  if (contribution.state != ContributionState::kReported) return RejectReason::kNotReported;
  const RoundReport& report = contribution.report;
  const bool finite = report.nonfinite == 0 && std::isfinite(report.norm);
  if (!finite) return RejectReason::kNonFinite;
  return report.tokens.n > 0 ? RejectReason::kNone : RejectReason::kNoTokens;
}

QuorumInput quorum_input(const Turn& turn, const JobRecord& job, const RoundRecord& round) {
  const State& state = turn.state();
  QuorumInput input;
  input.now = turn.now();
  input.opened_at = round.opened_at;
  input.min_replicas = job.spec.swarm.min_replicas;
  input.holders = weakest_stage(state, job).holders;
  for (const ReplicaId replica : round_replicas(state, round.key)) {
    if (!is_live(state, replica)) continue;
    const auto& contribution = state.contributions.at({round.key, replica});
    QuorumMember member{.replica = replica,
                        .reported_at = {},
                        .serving_since = state.replicas.at(replica).updated_at};
    if (contribution.state == ContributionState::kReported) {
      member.reported_at = contribution.reported_at;
      member.usable = reject_reason(contribution) == RejectReason::kNone;
    }
    input.trainers.push_back(member);
  }
  input.enough = enough_reports(job.spec.sync, static_cast<std::int64_t>(input.trainers.size()));
  for (const ReplicaId replica : live_replicas(state, job.id)) {
    const ReplicaRecord& record = state.replicas.at(replica);
    const bool loading = record.state == ReplicaState::kLoading;
    if (loading && record.source.key == RoundKey{job.id, job.lineage, job.committed_round}) {
      input.loading_since.push_back(record.created_at);
    }
  }
  return input;
}

void close_stragglers(Turn& turn, const RoundKey& key, const QuorumDecision& decision) {
  JobTimers& timers = turn.volatile_state().timers[key.job];
  if (timers.close_sent) return;
  timers.close_sent = true;
  for (const ReplicaId replica : decision.silent) {
    turn.send(turn.state().replicas.at(replica).agent,
              ToReplica<CloseRound>{replica, CloseRound{key}});
  }
  turn.event(Severity::kWarning, event_kind::kRoundStragglers, {.job = key.job, .round = key.round},
             "round " + std::to_string(key.round) + ": " + std::to_string(decision.silent.size()) +
                 " of " + std::to_string(decision.trainers) + " told to report what they have");
}

// Rejects norms far above the median, where there are enough members to know who is the odd one.
// `usable` and `norms` belong together and lose the rejected.
void reject_outliers(Turn& turn, const RoundKey& key, std::vector<ReplicaId>& usable,
                     std::vector<double>& norms) {
  const Options& options = turn.options();
  if (norms.size() < static_cast<std::size_t>(options.outlier_members_min)) return;
  const double limit = options.outlier_factor * outer_opt::median(norms);
  for (std::size_t i = usable.size(); i-- > 0;) {
    if (norms[i] <= limit) continue;
    ContributionRecord& contribution = turn.contribution(key, usable[i]);
    contribution.reject_reason = RejectReason::kOutlier;
    contribution.weight = 0;
    usable.erase(usable.begin() + static_cast<std::ptrdiff_t>(i));
    norms.erase(norms.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// When most of the stage is sound, what was rejected is held against its agents.
void strike_the_odd_ones(Turn& turn, const RoundKey& key, const std::vector<ReplicaId>& members) {
  std::vector<std::pair<AgentId, RejectReason>> odd;
  std::size_t sound = 0;
  for (const ReplicaId replica : members) {
    const auto& contribution = turn.state().contributions.at({key, replica});
    sound += contribution.weight > 0;
    if (is_strike(contribution.reject_reason)) {
      odd.emplace_back(contribution.agent, contribution.reject_reason);
    }
  }
  if (sound < odd.size()) return;
  for (const auto& [agent, reason] : odd) strike(turn, agent, reason);
}

// Of one stage. Weights are tokens, in groups all the same; with sync.clip a norm above the median
// is clipped to it (median norm / its norm). False: nobody has a usable contribution.
bool weigh(Turn& turn, const RoundKey& key, const std::vector<ReplicaId>& members) {
  const bool in_groups = averages_in_groups(turn.state().jobs.at(key.job));
  std::vector<ReplicaId> usable;
  std::vector<double> norms;
  for (const ReplicaId replica : members) {
    ContributionRecord& contribution = turn.contribution(key, replica);
    if (contribution.reject_reason != RejectReason::kJoiner) {
      contribution.reject_reason = reject_reason(contribution);
    }
    contribution.weight = 0;
    contribution.clip_factor = 1;
    if (contribution.reject_reason != RejectReason::kNone) continue;
    contribution.weight = in_groups ? 1 : static_cast<double>(contribution.report.tokens.n);
    usable.push_back(replica);
    norms.push_back(contribution.report.norm);
  }
  reject_outliers(turn, key, usable, norms);
  strike_the_odd_ones(turn, key, members);
  if (!turn.state().jobs.at(key.job).spec.sync.clip) return !usable.empty();
  const auto factors = outer_opt::clip_factors(norms);
  for (std::size_t i = 0; i < usable.size(); ++i) {
    turn.contribution(key, usable[i]).clip_factor = factors[i];
  }
  return !usable.empty();
}

// A replica that loaded after the round was opened takes part with weight 0, so that it can follow.
void add_joiners(Turn& turn, const RoundKey& key, const std::vector<ReplicaId>& members) {
  for (const ReplicaId replica : members) {
    if (turn.state().contributions.contains({key, replica})) continue;
    contribution_in(turn, key, replica).reject_reason = RejectReason::kJoiner;
  }
}

void enter(Turn& turn, const RoundKey& key, const std::vector<ReplicaId>& replicas) {
  const std::vector<OpenRound> orders = enlist(turn, key, replicas);
  turn.volatile_state().timers[key.job].close_sent = false;  // they were not told
  refresh_view(turn, key.job);
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    turn.send(turn.state().replicas.at(replicas[i]).agent,
              ToReplica<OpenRound>{replicas[i], orders[i]});
  }
}

// Holders that cannot wait for the next round: their stage trains this one with too few replicas.
std::vector<ReplicaId> needed_now(const State& state, const RoundKey& key) {
  const JobRecord& job = state.jobs.at(key.job);
  std::vector<ReplicaId> needed;
  const std::vector<ReplicaId> there = enlisted(state, key);
  if (stage_count(job) == 1 || there.empty()) return needed;
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    std::vector<ReplicaId> waiting = holders(state, job, stage);
    const auto all = static_cast<std::int64_t>(waiting.size());
    std::erase_if(waiting, [&](ReplicaId id) {
      return std::find(there.begin(), there.end(), id) != there.end();
    });
    const std::int64_t training = all - static_cast<std::int64_t>(waiting.size());
    if (training < job.spec.swarm.min_replicas) {
      needed.insert(needed.end(), waiting.begin(), waiting.end());
    }
  }
  return needed;
}

// A round by time ends for everybody at once.
void close_when_due(Turn& turn, const RoundRecord& round) {
  const SyncSpec& sync = turn.state().jobs.at(round.key.job).spec.sync;
  if (sync.every_s == 0) return;
  JobTimers& timers = turn.volatile_state().timers[round.key.job];
  const Instant due = round.opened_at + seconds(sync.every_s);
  if (turn.now() < due) return look_again(turn, round.key.job, due);
  if (timers.close_sent) return;
  timers.close_sent = true;
  for (const ReplicaId replica : enlisted(turn.state(), round.key)) {
    turn.send(turn.state().replicas.at(replica).agent,
              ToReplica<CloseRound>{replica, CloseRound{round.key}});
  }
}

void check_open(Turn& turn, const RoundKey& key) {
  const JobRecord& job = turn.state().jobs.at(key.job);
  const std::vector<ReplicaId> late = needed_now(turn.state(), key);
  if (!late.empty()) return enter(turn, key, late);
  close_when_due(turn, turn.state().rounds.at(key));
  const auto decision =
      decide_quorum(quorum_input(turn, job, turn.state().rounds.at(key)), turn.options());
  if (decision.look_again_at) look_again(turn, key.job, *decision.look_again_at);
  switch (decision.verdict) {
    case QuorumVerdict::kWait:
      if (decision.reason != QuorumReason::kNobodyTrains) return;
      return enter(turn, key, holders(turn.state(), job));
    case QuorumVerdict::kClose:
      return close_stragglers(turn, key, decision);
    case QuorumVerdict::kFreeze:
      for (const ReplicaId replica : decision.silent) {
        fail_replica(turn, replica, ReplicaFailure::kFrozen,
                     "it did not report, not even when asked");
      }
      return;
    case QuorumVerdict::kSeal:
      return seal(turn, key);
  }
}

std::int64_t count_routers(const State& state, const std::vector<ReplicaId>& replicas) {
  return std::count_if(replicas.begin(), replicas.end(),
                       [&](ReplicaId id) { return state.replicas.at(id).stage == 0; });
}

// What each of these replicas draws in one inner step; only routers draw. A step of a pipeline is
// as large as it ever was: a router that moved or is gone has its share drawn by the others.
std::vector<std::int64_t> sequences_per_step(const State& state, const RoundKey& key,
                                             const std::vector<ReplicaId>& replicas) {
  const JobRecord& job = state.jobs.at(key.job);
  const TrainSpec& train = job.spec.train;
  if (job.stages.size() == 1) return std::vector<std::int64_t>(replicas.size(), train.batch);
  std::vector<std::int64_t> counts(replicas.size(), 0);
  std::vector<double> speeds;
  std::vector<std::size_t> routers;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    if (state.replicas.at(replicas[i]).stage != 0) continue;
    routers.push_back(i);
    speeds.push_back(speed_of(state, replicas[i]));
  }
  std::vector<ReplicaId> others = enlisted(state, key);
  std::erase_if(others, [&](ReplicaId id) {
    return std::find(replicas.begin(), replicas.end(), id) != replicas.end();
  });
  const auto count = static_cast<std::int64_t>(routers.size());
  const bool all = count_routers(state, others) == 0;
  const std::int64_t batches = all ? std::max(job.routers, count) : count;
  const auto shares = share_batch(batches * train.batch, train.microbatch, std::move(speeds));
  for (std::size_t i = 0; i < routers.size(); ++i) counts[routers[i]] = shares[i];
  return counts;
}

void note_routers(Turn& turn, const RoundKey& key) {
  const JobRecord& job = turn.state().jobs.at(key.job);
  const std::int64_t routers = count_routers(turn.state(), enlisted(turn.state(), key));
  if (job.stages.size() > 1 && routers > job.routers) turn.job(key.job).routers = routers;
}

// Inner steps per second of the last committed round; 0: not known.
double measured_speed(const State& state, const RoundKey& committed, ReplicaId replica) {
  const ContributionRecord* last = state.contributions.find({committed, replica});
  if (last == nullptr || last->report.compute_s <= 0) return 0;
  return static_cast<double>(last->report.steps.count()) / last->report.compute_s;
}

// The most that a round by time may take: half as many again as the fastest would, all that is left
// while nobody's speed is known.
Steps steps_by_time(const State& state, const RoundRecord& round,
                    const std::vector<ReplicaId>& replicas) {
  const JobRecord& job = state.jobs.at(round.key.job);
  const RoundKey committed{job.id, job.lineage, job.committed_round};
  const Steps left = round.to_step - round.from_step;
  double fastest = 0;
  for (const ReplicaId replica : replicas) {
    fastest = std::max(fastest, measured_speed(state, committed, replica));
  }
  if (fastest == 0) return left;
  const double most = 1.5 * fastest * static_cast<double>(job.spec.sync.every_s);
  return std::min(left, Steps(static_cast<std::int64_t>(std::min(most, 1e15)) + 1));
}

// How many inner steps of the round each of these replicas takes.
std::vector<Steps> steps_of(const State& state, const RoundRecord& round,
                            const std::vector<ReplicaId>& replicas) {
  const JobRecord& job = state.jobs.at(round.key.job);
  const Steps all = round.to_step - round.from_step;
  if (all.count() > 0 && job.spec.sync.every_s > 0) {
    return std::vector<Steps>(replicas.size(), steps_by_time(state, round, replicas));
  }
  if (all.count() == 0 || job.spec.sync.balance == Balance::kEqual) {
    return std::vector<Steps>(replicas.size(), all);
  }
  std::vector<ReplicaSpeed> speeds;
  const RoundKey committed{job.id, job.lineage, job.committed_round};
  for (const ReplicaId replica : replicas) {
    speeds.push_back({measured_speed(state, committed, replica), speed_of(state, replica)});
  }
  return balanced_steps(all, speeds);
}

// With sync.overlap_steps a lease goes on behind the boundary, and that of a replica which goes on
// begins there (lease_walk.h).
std::int64_t leased_steps(const JobRecord& job, Steps from, Steps to,
                          const ContributionRecord& contribution) {
  const Steps ahead =
      contribution.leases.empty() ? Steps(0) : outer_opt::overlap_at(job.spec, from);
  return (to + outer_opt::overlap_at(job.spec, to) - from - ahead).count();
}

// A round by time is as long as its longest contribution.
void settle_length(Turn& turn, const RoundKey& key) {
  const JobRecord& job = turn.state().jobs.at(key.job);
  if (job.spec.sync.every_s == 0) return;
  Steps longest;
  for (const ReplicaId replica : round_replicas(turn.state(), key)) {
    longest = std::max(longest, turn.state().contributions.at({key, replica}).report.steps);
  }
  turn.round(key).to_step = job.committed_step + longest;
}

}  // namespace

std::int32_t fragment_of_round(const JobRecord& job, const RoundRecord& round) {
  return outer_opt::fragment_of(job.spec, round.key.round, round.to_step);
}

RoundKey next_key(const JobRecord& job) { return {job.id, job.lineage, job.committed_round + 1}; }

ContributionRecord& contribution_in(Turn& turn, const RoundKey& key, ReplicaId replica) {
  if (!turn.state().contributions.contains({key, replica})) {
    ContributionRecord record;
    record.key = key;
    record.replica = replica;
    record.agent = turn.state().replicas.at(replica).agent;
    record.stage = turn.state().replicas.at(replica).stage;
    turn.add(std::move(record));
  }
  return turn.contribution(key, replica);
}

std::vector<OpenRound> enlist(Turn& turn, const RoundKey& key,
                              const std::vector<ReplicaId>& replicas) {
  const RoundRecord round = turn.state().rounds.at(key);
  const std::vector<std::int64_t> per_step = sequences_per_step(turn.state(), key, replicas);
  const std::vector<Steps> steps = steps_of(turn.state(), round, replicas);
  std::vector<OpenRound> orders;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    ContributionRecord& contribution = contribution_in(turn, key, replicas[i]);
    JobRecord& job = turn.job(key.job);
    const Steps to_step = round.from_step + steps[i];
    const std::int64_t count =
        leased_steps(job, round.from_step, to_step, contribution) * per_step[i];
    orders.push_back({key, round.from_step, to_step,
                      lease({job.next_sequence, job.returned}, count),
                      fragment_of_round(job, round),
                      peers_to_measure(turn.state(), turn.now(), replicas[i]), round.aborts});
    contribution.state = ContributionState::kTraining;
    contribution.reject_reason = RejectReason::kNone;
    contribution.leases.push_back(orders.back().lease);
  }
  note_routers(turn, key);
  return orders;
}

bool has_events(const JobRecord& job, const RoundRecord& round) {
  if (job.spec.sync.algorithm != SyncAlgorithm::kDdp) return true;
  const std::int64_t every = job.spec.eval.every_rounds;
  return (every > 0 && round.key.round % every == 0) || round.to_step >= job.spec.train.steps;
}

bool is_late(const JobRecord& job, const ContributionRecord& contribution) {
  return job.spec.sync.algorithm == SyncAlgorithm::kAsync &&
         contribution.reject_reason == RejectReason::kNotReported;
}

OpenRound order_of(const State& state, const RoundRecord& round, ReplicaId replica) {
  const JobRecord& job = state.jobs.at(round.key.job);
  const DataLease& lease = state.contributions.at({round.key, replica}).leases.back();
  const bool own = job.spec.sync.balance == Balance::kSpeed || job.spec.sync.every_s > 0 ||
                   job.spec.sync.algorithm == SyncAlgorithm::kAsync;
  Steps steps = round.to_step - round.from_step;
  if (own && job.stages.size() == 1) steps = Steps(lease.count / job.spec.train.batch);
  return {round.key, round.from_step, round.from_step + steps, lease, fragment_of_round(job, round),
          {},        round.aborts};
}

void open_round(Turn& turn, JobId id) {
  const JobRecord& job = turn.state().jobs.at(id);
  RoundRecord record;
  record.key = next_key(job);
  record.from_step = job.committed_step;
  record.to_step = job.committed_step + outer_opt::round_length(job.spec.sync);
  // How far an asynchronous job is when its replicas report nobody knows: whole leases to its end.
  if (job.spec.sync.algorithm != SyncAlgorithm::kAsync) {
    record.to_step = std::min(record.to_step, job.spec.train.steps);
  }
  record.opened_at = turn.now();
  record.stages.resize(job.stages.size());
  turn.add(std::move(record));
  JobTimers& timers = turn.volatile_state().timers[id];
  timers.close_sent = false;
  timers.reduces.clear();
}

void check_round(Turn& turn, JobId id) {
  check_applied(turn, id);
  const JobRecord& job = turn.state().jobs.at(id);
  const RoundRecord* round = current_round(turn.state(), job);
  if (round == nullptr) {
    if (weakest_stage(turn.state(), job).holders == 0) return;
    open_round(turn, id);
    round = current_round(turn.state(), turn.state().jobs.at(id));
  }
  const RoundKey key = round->key;
  if (round->state == RoundState::kOpen) check_open(turn, key);
  const RoundState now = turn.state().rounds.contains(key) ? turn.state().rounds.at(key).state
                                                           : RoundState::kCommitted;
  if (now == RoundState::kReducing || now == RoundState::kVoting) judge(turn, key);
}

void on_report(Turn& turn, ReplicaId replica, const RoundReport& report) {
  note_links(turn, replica, report.links);
  const ContributionRecord* known = turn.state().contributions.find({report.key, replica});
  const RoundRecord* round = turn.state().rounds.find(report.key);
  if (known == nullptr || round == nullptr || round->state != RoundState::kOpen) return;
  if (report.aborts != round->aborts) return;                // its replica has yet to hear of one
  if (known->state != ContributionState::kTraining) return;  // said twice
  ContributionRecord& contribution = turn.contribution(report.key, replica);
  contribution.state = ContributionState::kReported;
  contribution.report = report;
  contribution.report.links.clear();
  contribution.report.aborts = 0;  // as the round says
  contribution.reported_at = turn.now();
}

void seal(Turn& turn, const RoundKey& key) {
  settle_length(turn, key);
  const JobRecord& job = turn.state().jobs.at(key.job);
  std::vector<std::vector<ReplicaId>> members;  // by stage
  std::size_t count = 0;
  bool usable = true;
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    members.push_back(holders(turn.state(), job, stage));
    add_joiners(turn, key, members.back());
    usable &= weigh(turn, key, members.back());
    count += members.back().size();
  }
  transition(turn, key, RoundState::kSealed);
  turn.round(key).sealed_at = turn.now();
  turn.round(key).outer_lr = job.outer_lr;
  transition(turn, key, RoundState::kReducing);
  if (!usable) return abort_round(turn, key, AbortReason::kNoUsableContribution);
  if (has_events(job, turn.state().rounds.at(key))) {
    turn.event(Severity::kInfo, event_kind::kRoundSealed, {.job = key.job, .round = key.round},
               "round " + std::to_string(key.round) + " sealed with " + std::to_string(count) +
                   " members");
  }
  if (averages_in_groups(job)) members = form_groups(turn, key, members[0]);
  for (std::size_t reduce = 0; reduce < members.size(); ++reduce) {
    const auto index = static_cast<ReduceIndex>(reduce);
    if (any_usable(turn.state(), key, members[reduce])) {
      start_attempt(turn, key, index, members[reduce]);
    } else {  // of a stage that was looked at above
      give_up_group(turn, key, index, to_string(AbortReason::kNoUsableContribution));
    }
  }
}

}  // namespace shoal::coordinator
