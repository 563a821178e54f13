#include "coordinator/core/rounds/rounds.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/core/decisions/quorum.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/joining.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/rounds/attempts.h"
#include "coordinator/core/rounds/commits.h"
#include "coordinator/core/rounds/links.h"
#include "coordinator/core/rounds/nonfinite.h"
#include "coordinator/core/rounds/orders.h"
#include "coordinator/core/rounds/pipeline_view.h"
#include "coordinator/core/rounds/round_groups.h"
#include "coordinator/core/state/health_record.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/movement.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"
#include "outer_opt/core/round/clip.h"
#include "outer_opt/core/round/lease_runs.h"

namespace shoal::coordinator {
namespace {

constexpr std::int64_t kSpare = 2;  // replicas of a stage, so that the loss of one is survived

RejectReason reject_reason(const ContributionRecord& contribution) {
  if (contribution.state != ContributionState::kReported) return RejectReason::kNotReported;
  const RoundReport& report = contribution.report;
  if (!is_finite(report)) return RejectReason::kNonFinite;
  return report.tokens.n > 0 ? RejectReason::kNone : RejectReason::kNoTokens;
}

QuorumInput quorum_input(const Transaction& tx, const JobRecord& job, const RoundRecord& round) {
  const State& state = tx.state();
  QuorumInput input;
  input.now = tx.now();
  input.opened_at = round.opened_at;
  input.min_replicas = job.spec.swarm.min_replicas;
  input.in_sync = weakest_stage(state, job).in_sync;
  for (const ReplicaId replica : round_replicas(state, round.key)) {
    if (!is_present(state, replica)) continue;
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
    const auto since = awaited_since(state, job, state.replicas.at(replica));
    if (since) input.loading_since.push_back(*since);
  }
  return input;
}

void close_stragglers(Transaction& tx, const RoundKey& key, const QuorumDecision& decision) {
  JobTimers& timers = tx.volatile_state().timers[key.job];
  if (timers.close_sent) return;
  timers.close_sent = true;
  for (const ReplicaId replica : decision.silent) {
    tx.tell(replica, CloseRound{key});
  }
  tx.event(Severity::kWarning, event_kind::kRoundStragglers, {.job = key.job, .round = key.round},
           "round " + std::to_string(key.round) + ": " + std::to_string(decision.silent.size()) +
               " of " + std::to_string(decision.trainers) +
               " told to report what they have: " + display_name(tx.state(), decision.silent));
}

// The number of inner steps whose tokens are in a pseudo-gradient; for a fragment those of several
// rounds. In a pipeline, where tokens count the microbatches that passed, it is the steps of the
// round.
double work_behind(const JobRecord& job, const RoundReport& report) {
  if (stage_count(job) > 1) return static_cast<double>((report.steps - report.skipped).count());
  const auto step = static_cast<double>(job.spec.train.batch * job.spec.model.context);
  return static_cast<double>(report.tokens.count()) / step;
}

// Norms at equal work, so that they can be compared (clip.h).
std::vector<double> comparable_norms(const State& state, const RoundKey& key,
                                     const std::vector<ReplicaId>& members) {
  const JobRecord& job = state.jobs.at(key.job);
  std::vector<double> norms, work;
  for (const ReplicaId replica : members) {
    const RoundReport& report = state.contributions.at({key, replica}).report;
    norms.push_back(sent_norm(report));
    work.push_back(work_behind(job, report));
  }
  return outer_opt::norms_at_equal_work(norms, work);
}

// Rejects norms far above the median, if there are enough members to judge by. Removes the rejected
// members from `usable` and their norms from `norms`, which have the same order.
void reject_outliers(Transaction& tx, const RoundKey& key, std::vector<ReplicaId>& usable,
                     std::vector<double>& norms) {
  const Options& options = tx.options();
  std::vector<double> telling = outer_opt::telling_norms(norms);
  if (telling.size() < static_cast<std::size_t>(options.outlier_members_min)) return;
  const double limit = options.outlier_factor * outer_opt::median(std::move(telling));
  for (std::size_t i = usable.size(); i-- > 0;) {
    if (norms[i] <= limit) continue;
    ContributionRecord& contribution = tx.contribution(key, usable[i]);
    contribution.reject_reason = RejectReason::kOutlier;
    contribution.weight = 0;
    usable.erase(usable.begin() + static_cast<std::ptrdiff_t>(i));
    norms.erase(norms.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// What a program computes is its user's doing: its agent only carries it.
bool is_violation_of_agent(const JobSpec& spec, RejectReason reason) {
  const bool numbers = reason == RejectReason::kOutlier;
  return is_violation(reason) && !(numbers && spec.trainer.kind == TrainerKind::kPython);
}

// When most of the stage is sound, agents get a violation for their rejected contributions.
void record_violations(Transaction& tx, const RoundKey& key,
                       const std::vector<ReplicaId>& members) {
  std::vector<std::pair<AgentId, RejectReason>> odd;
  std::size_t sound = 0;
  for (const ReplicaId replica : members) {
    const auto& contribution = tx.state().contributions.at({key, replica});
    sound += contribution.weight > 0;
    if (is_violation_of_agent(tx.state().jobs.at(key.job).spec, contribution.reject_reason)) {
      odd.emplace_back(contribution.agent, contribution.reject_reason);
    }
  }
  if (sound < odd.size()) return;
  for (const auto& [agent, reason] : odd) record_violation(tx, agent, reason);
}

// Weighs the members of one stage. Weights are tokens, in groups all equal; with sync.clip a norm
// above the median is clipped to it (median norm / its norm), norms being those of equal work.
// False: nobody has a usable contribution.
bool weigh(Transaction& tx, const RoundKey& key, const std::vector<ReplicaId>& members) {
  const bool in_groups = averages_in_groups(tx.state().jobs.at(key.job));
  std::vector<ReplicaId> usable;
  for (const ReplicaId replica : members) {
    ContributionRecord& contribution = tx.contribution(key, replica);
    if (contribution.reject_reason != RejectReason::kJoiner) {
      contribution.reject_reason = reject_reason(contribution);
    }
    contribution.weight = 0;
    contribution.clip_factor = 1;
    if (contribution.reject_reason != RejectReason::kNone) continue;
    contribution.weight = in_groups ? 1 : static_cast<double>(contribution.report.tokens.n);
    usable.push_back(replica);
  }
  std::vector<double> norms = comparable_norms(tx.state(), key, usable);
  reject_outliers(tx, key, usable, norms);
  record_violations(tx, key, members);
  note_nonfinite(tx, key, members);
  if (!tx.state().jobs.at(key.job).spec.sync.clip) return !usable.empty();
  const auto factors = outer_opt::clip_factors(norms);
  for (std::size_t i = 0; i < usable.size(); ++i) {
    tx.contribution(key, usable[i]).clip_factor = factors[i];
  }
  return !usable.empty();
}

// A replica that loaded after the round was opened takes part with weight 0, so that it can follow.
void add_joiners(Transaction& tx, const RoundKey& key, const std::vector<ReplicaId>& members) {
  for (const ReplicaId replica : members) {
    if (tx.state().contributions.contains({key, replica})) continue;
    contribution_in(tx, key, replica).reject_reason = RejectReason::kJoiner;
  }
}

void enter(Transaction& tx, const RoundKey& key, const std::vector<ReplicaId>& replicas) {
  const std::vector<OpenRound> orders = assign_data(tx, key, replicas);
  tx.volatile_state().timers[key.job].close_sent = false;  // they were not told
  refresh_view(tx, key.job);
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    tx.tell(replicas[i], orders[i]);
  }
}

// The number of replicas with which this stage should continue the round. It is the number that the
// round began with, because its data was cut for that many. A later stage gets at least two, so
// that no single loss costs the round; more routers would bring more data than the round is cut
// for.
std::int64_t wanted_now(const State& state, const RoundKey& key, StageIndex stage) {
  const JobRecord& job = state.jobs.at(key.job);
  const std::int64_t began = std::ranges::count_if(state.contributions, [&](const auto& entry) {
    const ContributionRecord& part = entry.second;
    return part.key == key && part.stage == stage && !part.reducer &&
           part.reject_reason != RejectReason::kJoiner;
  });
  const std::int64_t enough = stage == 0 ? std::min(began, job.routers) : std::max(began, kSpare);
  return std::max(enough, job.spec.swarm.min_replicas);
}

// In-sync replicas that cannot wait for the next round: their stage trains this one with too few
// replicas.
std::vector<ReplicaId> needed_now(const State& state, const RoundKey& key) {
  const JobRecord& job = state.jobs.at(key.job);
  std::vector<ReplicaId> needed;
  const std::vector<ReplicaId> there = with_assigned_data(state, key);
  if (stage_count(job) == 1 || there.empty()) return needed;
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    std::vector<ReplicaId> waiting = in_sync_replicas(state, job, stage);
    const auto all = static_cast<std::int64_t>(waiting.size());
    std::erase_if(waiting, [&](ReplicaId id) {
      return std::find(there.begin(), there.end(), id) != there.end();
    });
    const std::int64_t training = all - static_cast<std::int64_t>(waiting.size());
    const std::int64_t missing = training == 0 ? all : wanted_now(state, key, stage) - training;
    if (missing < std::ssize(waiting)) waiting.resize(std::max<std::int64_t>(missing, 0));
    needed.insert(needed.end(), waiting.begin(), waiting.end());
  }
  return needed;
}

// Whether a replica that begins a round by time this late can take at least one step before the
// round closes, so that no other waits for it: there must be time for two steps of the slowest
// replica of the last round, or half of the round while no speed is known.
bool pays_to_begin(const State& state, const JobRecord& job, const RoundRecord& round,
                   Instant now) {
  const Duration left = time_left(job, round, now);
  const double slowest = speeds_of_last_round(state, job).slowest;
  if (slowest == 0) return left * 2 >= seconds(job.spec.sync.every_s);
  return left.seconds() * slowest >= 2;
}

// Replicas that loaded or came back while a timed round is open. What they train until it closes
// counts in it, and it does not close later because of them.
std::vector<ReplicaId> in_time(const Transaction& tx, const RoundRecord& round) {
  const State& state = tx.state();
  const JobRecord& job = state.jobs.at(round.key.job);
  if (job.spec.sync.every_s == 0 || stage_count(job) > 1) return {};
  if (state.timers.at(job.id).close_sent || round.from_step == round.to_step) return {};
  const std::vector<ReplicaId> there = with_assigned_data(state, round.key),
                               all = in_sync_replicas(state, job);
  if (there.empty() || there.size() >= all.size()) return {};
  if (!pays_to_begin(state, job, round, tx.now())) return {};
  std::vector<ReplicaId> waiting;
  std::ranges::set_difference(all, there, std::back_inserter(waiting));
  return waiting;
}

// Whether the silence of this replica's compute thread tells anything: it may still take the outer
// step before this round, or write a checkpoint, which have limits of their own.
bool should_work(const State& state, const ReplicaRecord& replica) {
  const JobRecord& job = state.jobs.at(replica.job);
  if (replica.held_round != job.committed_round || replica.epoch != job.epoch) return false;
  return !writes_checkpoint(state, replica.id);
}

void look_for_hung(Transaction& tx, const RoundRecord& round, QuorumInput& input) {
  for (QuorumMember& member : input.trainers) {
    const ReplicaRecord& replica = tx.state().replicas.at(member.replica);
    if (member.reported_at || !should_work(tx.state(), replica)) continue;
    const Instant begun = std::max({round.opened_at, member.serving_since, replica.updated_at});
    const auto since = silent_since(tx, member.replica, begun);
    if (since) member.hung_at = tx.deadline(*since, silence_limit(tx.state(), member.replica));
    member.patience = work_limit(tx.state(), member.replica);
  }
}

void ask_hung(Transaction& tx, const RoundKey& key, const std::vector<ReplicaId>& hung) {
  for (const ReplicaId replica : hung) {
    ComputeWatch& watch = tx.volatile_state().compute[replica];
    if (std::exchange(watch.asked, true)) continue;
    tx.tell(replica, CloseRound{key});
    tx.event(Severity::kWarning, event_kind::kRoundStragglers,
             {.job = key.job, .replica = replica, .round = key.round},
             "round " + std::to_string(key.round) + ": " + display_name(tx.state(), replica) +
                 " has been silent for " +
                 std::to_string(silence_limit(tx.state(), replica).ms() / 1000) +
                 " s and is told to report what it has");
  }
}

// A round by time ends for everybody at once.
void close_when_due(Transaction& tx, const RoundRecord& round) {
  const SyncSpec& sync = tx.state().jobs.at(round.key.job).spec.sync;
  if (sync.every_s == 0) return;
  JobTimers& timers = tx.volatile_state().timers[round.key.job];
  const Instant due = round.opened_at + seconds(sync.every_s);
  if (tx.now() < due) return tx.schedule_wakeup(round.key.job, due);
  if (timers.close_sent) return;
  timers.close_sent = true;
  for (const ReplicaId replica : with_assigned_data(tx.state(), round.key)) {
    tx.tell(replica, CloseRound{round.key});
  }
}

// A round by time is as long as its longest contribution.
void settle_length(Transaction& tx, const RoundKey& key) {
  const JobRecord& job = tx.state().jobs.at(key.job);
  if (job.spec.sync.every_s == 0) return;
  Steps longest;
  for (const ReplicaId replica : round_replicas(tx.state(), key)) {
    longest = std::max(longest, tx.state().contributions.at({key, replica}).report.steps);
  }
  tx.round(key).to_step = job.committed_step + longest;
}

void freeze(Transaction& tx, const RoundKey& key) {
  settle_length(tx, key);
  const JobRecord& job = tx.state().jobs.at(key.job);
  std::vector<std::vector<ReplicaId>> members;  // by stage
  std::size_t count = 0;
  bool usable = true;
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    members.push_back(in_sync_replicas(tx.state(), job, stage));
    add_joiners(tx, key, members.back());
    usable &= weigh(tx, key, members.back());
    count += members.back().size();
  }
  transition(tx, key, RoundState::kFrozen);
  tx.round(key).frozen_at = tx.now();
  tx.round(key).outer_lr = job.outer_lr;
  transition(tx, key, RoundState::kReducing);
  if (!usable) return abort_round(tx, key, AbortReason::kNoUsableContribution);
  if (has_events(job, tx.state().rounds.at(key))) {
    tx.event(Severity::kInfo, event_kind::kRoundFrozen, {.job = key.job, .round = key.round},
             "round " + std::to_string(key.round) + " frozen with " + std::to_string(count) +
                 (count == 1 ? " member" : " members"));
  }
  if (averages_in_groups(job)) members = form_groups(tx, key, members[0]);
  for (std::size_t reduce = 0; reduce < members.size(); ++reduce) {
    const auto index = static_cast<ReduceIndex>(reduce);
    if (any_usable(tx.state(), key, members[reduce])) {
      start_attempt(tx, key, index, members[reduce]);
    } else {  // of a stage that was looked at above
      give_up_group(tx, key, index, to_string(AbortReason::kNoUsableContribution));
    }
  }
}

void check_open(Transaction& tx, const RoundKey& key) {
  const JobRecord& job = tx.state().jobs.at(key.job);
  std::vector<ReplicaId> late = needed_now(tx.state(), key);
  if (late.empty()) late = in_time(tx, tx.state().rounds.at(key));
  if (!late.empty()) return enter(tx, key, late);
  close_when_due(tx, tx.state().rounds.at(key));
  QuorumInput input = quorum_input(tx, job, tx.state().rounds.at(key));
  look_for_hung(tx, tx.state().rounds.at(key), input);
  const auto decision = decide_quorum(input, tx.options());
  ask_hung(tx, key, decision.hung);
  if (decision.wakeup_at) tx.schedule_wakeup(key.job, *decision.wakeup_at);
  switch (decision.verdict) {
    case QuorumVerdict::kWait:
      if (decision.reason != QuorumReason::kNobodyTrains) return;
      return enter(tx, key, in_sync_replicas(tx.state(), job));
    case QuorumVerdict::kClose:
      return close_stragglers(tx, key, decision);
    case QuorumVerdict::kGiveUp:
      for (const ReplicaId replica : decision.silent) {
        fail_replica(tx, replica, ReplicaFailure::kUnresponsive,
                     decision.reason == QuorumReason::kHung
                         ? "its compute thread did not respond, not even when asked to report"
                         : "it did not report, not even when asked to");
      }
      return;
    case QuorumVerdict::kFreeze:
      return freeze(tx, key);
  }
}

// Takes back only sequences that were leased to this replica, whatever else the report names.
void take_back_unused(Transaction& tx, ContributionRecord& contribution) {
  JobRecord& job = tx.job(contribution.key.job);
  const auto kept = outer_opt::without(contribution.leases, contribution.report.unused);
  give_back({job.next_sequence, job.returned}, outer_opt::without(contribution.leases, kept));
  contribution.leases = kept;
  contribution.report.unused.clear();
}

// Nothing of the round counts, so all that it has leased is leased again.
void take_back_all(Transaction& tx, const RoundKey& key) {
  for (const ReplicaId replica : round_replicas(tx.state(), key)) {
    if (tx.state().contributions.at({key, replica}).leases.empty()) continue;
    JobRecord& job = tx.job(key.job);
    ContributionRecord& contribution = tx.contribution(key, replica);
    give_back({job.next_sequence, job.returned}, contribution.leases);
    contribution.leases.clear();
  }
}

}  // namespace

void check_round(Transaction& tx, JobId id) {
  check_applied(tx, id);
  const JobRecord& job = tx.state().jobs.at(id);
  const RoundRecord* round = current_round(tx.state(), job);
  if (round == nullptr) {
    if (weakest_stage(tx.state(), job).in_sync == 0) return;
    open_round(tx, id);
    round = current_round(tx.state(), tx.state().jobs.at(id));
  }
  const RoundKey key = round->key;
  if (round->state == RoundState::kOpen) check_open(tx, key);
  const RoundState now =
      tx.state().rounds.contains(key) ? tx.state().rounds.at(key).state : RoundState::kCommitted;
  if (now == RoundState::kReducing || now == RoundState::kVoting) judge(tx, key);
}

void on_report(Transaction& tx, ReplicaId replica, const RoundReport& report) {
  const ContributionRecord* known = tx.state().contributions.find({report.key, replica});
  const bool is_repeated = known != nullptr && known->state != ContributionState::kTraining;
  if (!is_repeated) note_links(tx, replica, report.links);  // else its lines are older than it
  const RoundRecord* round = tx.state().rounds.find(report.key);
  if (known == nullptr || round == nullptr || round->state != RoundState::kOpen) return;
  if (report.aborts != round->aborts) return;  // its replica has yet to hear of one
  if (is_repeated) return;
  if (fails_as_nonfinite(tx, replica, report)) return;
  ContributionRecord& contribution = tx.contribution(report.key, replica);
  contribution.state = ContributionState::kReported;
  contribution.report = report;
  contribution.report.links.clear();
  contribution.report.aborts = 0;  // as the round says
  contribution.reported_at = tx.now();
  take_back_unused(tx, contribution);
}

void end_round(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  const RoundKey key = next_key(job);
  if (const RoundRecord* round = tx.state().rounds.find(key)) {
    take_back_all(tx, key);
    if (round->state != RoundState::kAborted) transition(tx, key, RoundState::kAborted);
    tx.drop_round(key);
  }
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  if (tx.state().rounds.contains(committed)) tx.drop_round(committed);
}

}  // namespace shoal::coordinator
