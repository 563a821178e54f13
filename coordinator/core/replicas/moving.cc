#include "coordinator/core/replicas/moving.h"

#include <cmath>
#include <string>

#include "base/number_text.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kUrgentEvery = seconds(10);  // looks in an open round

void move_away(Transaction& tx, ReplicaId id, const std::string& what) {
  const ReplicaRecord& ended = tx.state().replicas.at(id);
  const RoundNumber round = next_key(tx.state().jobs.at(ended.job)).round;
  tx.event(Severity::kInfo, event_kind::kReplicaMoved,
           {.job = ended.job, .agent = ended.agent, .replica = ended.id, .round = round},
           display_name(tx.state(), ended.id) + what);
  let_go(tx, id, ReleaseReason::kReplaced, ContributionState::kMoved);
}

std::string rate_text(double tokens_per_s) {
  return std::to_string(std::llround(tokens_per_s)) + " tokens/s";
}

// "1.6 GB at 940.0 Mbit/s take 14 s"
std::string download_text(const swarm::Worth& worth) {
  return size_text(static_cast<double>(worth.download.count())) + " at " +
         size_text(worth.bytes_per_s) + "/s take " +
         std::to_string(std::llround(worth.away.seconds())) + " s";
}

void carry_out(Transaction& tx, const swarm::Move& move, const std::string& worth) {
  const ReplicaRecord leaving = tx.state().replicas.at(move.replica);
  move_away(tx, move.replica,
            " leaves stage " + std::to_string(move.from) + " for stage " + std::to_string(move.to) +
                " (" + to_string(move.reason) + worth + ")");
  const JobRecord& job = tx.state().jobs.at(leaving.job);
  // None while a checkpoint is about to be stored: the device then goes where it is lacking.
  const auto source = choose_source(tx.state(), job, move.to);
  if (source) assign_replica(tx, job.id, {leaving.agent, leaving.device, move.to}, *source);
}

// Ends the replica that decide_unsharing() names: its device serves its other stages better then.
void end_sharing(Transaction& tx, const JobRecord& job) {
  const auto ended = decide_unsharing(placement_input(tx, job));
  if (!ended) return;
  const StageIndex stage = tx.state().replicas.at(*ended).stage;
  move_away(tx, *ended, " leaves stage " + std::to_string(stage) + " to its other replicas");
}

swarm::RebalanceOptions rebalance_options(const JobSpec& spec) {
  swarm::RebalanceOptions options;
  options.min_replicas = static_cast<std::int32_t>(spec.swarm.min_replicas);
  options.max_replicas = static_cast<std::int32_t>(max_replicas(spec));
  return options;
}

// Why the move that would help most is not made; empty: there is nothing to say.
std::string explain_refused(const State& state, const swarm::BalanceDecision& decision) {
  if (decision.verdict != swarm::BalanceVerdict::kDoesNotPay || !decision.considered) return {};
  const auto& [move, worth] = *decision.considered;
  const std::string who = display_name(state, move.replica) + " stays in stage " +
                          std::to_string(move.from) + ": in stage " + std::to_string(move.to) +
                          ", which makes " + rate_text(decision.weakest) + ", it would gain " +
                          rate_text(worth.gain);
  if (worth.bound >= worth.away * 2) return who + ", too little for a move";
  return who + ", but " + download_text(worth) + ", and a move must last as long again within " +
         std::to_string(worth.bound.ms() / 1000) + " s";
}

// Said again when another replica or another stage is concerned.
void say_refused(Transaction& tx, JobId id, const swarm::BalanceDecision& decision) {
  std::string& said = tx.volatile_state().timers[id].balance_said;
  const std::string why = explain_refused(tx.state(), decision);
  if (why.empty()) return said.clear();
  const swarm::Move& move = decision.considered->move;
  const std::string what = to_string(move.replica) + " to " + std::to_string(move.to);
  if (std::exchange(said, what) == what) return;
  const ReplicaRecord& replica = tx.state().replicas.at(move.replica);
  tx.event(Severity::kInfo, event_kind::kMoveRefused,
           {.job = id, .agent = replica.agent, .replica = replica.id}, why);
}

void balance(Transaction& tx, JobId id, const swarm::BalanceDecision& decision) {
  say_refused(tx, id, decision);
  for (const swarm::Move& move : decision.moves) {
    const ReplicaRecord& replica = tx.state().replicas.at(move.replica);
    tx.volatile_state().timers[id].left.put({replica.agent, replica.device}, {move.from, tx.now()});
    const bool is_last = decision.considered && decision.considered->move == move;
    carry_out(tx, move,
              is_last
                  ? ": +" + rate_text(move.gain) + ", " + download_text(decision.considered->worth)
                  : ": +" + rate_text(move.gain));
  }
}

// Between commits. A round of minutes would otherwise be waited for with one stage far behind.
void balance_urgently(Transaction& tx, JobId id) {
  JobTimers& timers = tx.volatile_state().timers[id];
  if (timers.urgent_look_at && tx.now() < *timers.urgent_look_at) {
    return tx.schedule_wakeup(id, *timers.urgent_look_at);
  }
  timers.urgent_look_at = tx.now() + kUrgentEvery;
  tx.schedule_wakeup(id, *timers.urgent_look_at);
  const JobRecord& job = tx.state().jobs.at(id);
  swarm::RebalanceOptions options = rebalance_options(job.spec);
  options.low_water = options.urgent_below;
  const auto decision = swarm::Rebalancer(options).step(rebalance_view(placement_input(tx, job)));
  const bool is_urgent = decision.verdict != swarm::BalanceVerdict::kBalanced;
  const bool was_urgent = std::exchange(timers.is_urgent, is_urgent);
  if (is_urgent && was_urgent) balance(tx, id, decision);
}

}  // namespace

void move_in_emergency(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (job.stages.size() < 2) return;
  for (const swarm::Move& move : decide_emergency(placement_input(tx, job))) {
    carry_out(tx, move, {});
  }
}

void move_for_balance(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  JobTimers& timers = tx.volatile_state().timers[id];
  if (job.stages.size() < 2 || job.phase != JobPhase::kTraining || !anchors_known(job)) return;
  if (timers.balanced_round == job.committed_round) return balance_urgently(tx, id);
  timers.balanced_round = job.committed_round;
  end_sharing(tx, job);
  if (tx.now() < job.balance_at) return;
  swarm::Rebalancer rebalancer(rebalance_options(job.spec), job.balance_confirmed);
  const auto decision = rebalancer.step(rebalance_view(placement_input(tx, job)));
  JobRecord& record = tx.job(id);
  record.balance_at = tx.now() + tx.options().rebalance_every;
  record.balance_confirmed = rebalancer.confirmed();
  balance(tx, id, decision);
}

}  // namespace shoal::coordinator
