#include "coordinator/core/replicas/moving.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "base/number_text.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/replicas/replanning.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kUrgentEvery = seconds(10);  // looks in an open round
constexpr Duration kShowEvery = seconds(30);    // how the job is placed, for people

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

bool serves_or_loads(const State& state, JobId job, StageIndex stage) {
  return std::ranges::any_of(live_replicas(state, job),
                             [&](ReplicaId id) { return state.replicas.at(id).stage == stage; });
}

// Whether the device can be given its new stage in the same step. Without a source for its state
// the device would only be free, for any job. Where no source is to be expected either, a free
// device is what makes the job roll back (jobs.cc).
bool may_begin(const State& state, const JobRecord& job, const swarm::Move& move) {
  if (choose_source(state, job, move.to)) return true;
  return !serves_or_loads(state, job.id, move.to) && !checkpoint_of_committed_pending(state, job);
}

void note_left(Transaction& tx, const ReplicaRecord& leaving) {
  constexpr Duration kKept = swarm::RebalanceOptions{}.payback_max;
  auto& left = tx.volatile_state().timers[leaving.job].left[{leaving.agent, leaving.device}];
  std::erase_if(left, [&](const LeftStage& stage) { return tx.now() - stage.at >= kKept; });
  left.push_back({leaving.stage, tx.now()});
}

void carry_out(Transaction& tx, const swarm::Move& move, const std::string& worth) {
  const ReplicaRecord leaving = tx.state().replicas.at(move.replica);
  note_left(tx, leaving);
  tx.count_transition("move", "for", to_string(move.reason));
  move_away(tx, move.replica,
            " leaves stage " + std::to_string(move.from) + " for stage " + std::to_string(move.to) +
                " (" + to_string(move.reason) + worth + ")");
  const JobRecord& job = tx.state().jobs.at(leaving.job);
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
  options.copies_min = static_cast<std::int32_t>(spec.swarm.copies_min);
  return options;
}

// ---- what people are told of it

// "rep_7 (agent-2) stays in stage 0: in stage 1, which makes 300 tokens/s, it would gain 100
// tokens/s, but 1.6 GB at 625 kB/s take 2565 s, and ..."
std::string explain_considered(const State& state, const swarm::BalanceDecision& decision,
                               bool is_made) {
  const auto& [move, worth] = *decision.considered;
  const std::string there =
      "stage " + std::to_string(move.to) + ", which makes " + rate_text(decision.weakest) + ", it ";
  const std::string who = display_name(state, move.replica);
  const std::string limit = std::to_string(worth.bound.ms() / 1000) + " s";
  if (is_made) {
    return who + " moves from stage " + std::to_string(move.from) + ": in " + there + "gains " +
           rate_text(worth.gain) + ". " + download_text(worth) + ", and the move pays after " +
           std::to_string(std::llround(worth.payback.seconds())) + " s of at most " + limit;
  }
  const std::string stays = who + " stays in stage " + std::to_string(move.from) + ": in " + there +
                            "would gain " + rate_text(worth.gain);
  if (worth.bound >= worth.payback) return stays + ", too little for a move";
  return stays + ", but " + download_text(worth) + ", and a move must last as long again within " +
         limit;
}

// Why none was considered; empty: none is needed.
std::string explain_none(const JobSpec& spec, const swarm::BalanceDecision& decision) {
  const std::string weak = "stage " + std::to_string(decision.weakest_stage) + " is the weakest";
  switch (decision.verdict) {
    case swarm::BalanceVerdict::kUnconfirmed:
      return weak + ", and a second look decides whether a replica moves there";
    case swarm::BalanceVerdict::kTransitBudget:
      return weak + ", and a replica moves already";
    case swarm::BalanceVerdict::kNoGain:
      if (decision.held_back == 0) return weak + ", and no replica of another stage would help it";
      return weak + ", and " + std::to_string(decision.held_back) +
             (decision.held_back == 1 ? " replica" : " replicas") +
             " of other stages would help it, but every stage keeps " +
             std::to_string(std::max(spec.swarm.min_replicas, spec.swarm.copies_min)) +
             " copies (swarm.min_replicas, swarm.copies_min)";
    default:
      return {};
  }
}

bool is_made(const swarm::BalanceDecision& decision) {
  return decision.considered && std::ranges::count(decision.moves, decision.considered->move) > 0;
}

void keep_report(Transaction& tx, JobId id, const swarm::BalanceDecision& decision) {
  JobTimers& timers = tx.volatile_state().timers[id];
  timers.look = {.at = tx.now(),
                 .verdict = decision.verdict,
                 .weakest_stage = decision.weakest_stage,
                 .weakest = decision.weakest,
                 .mean = decision.mean};
  if (!decision.considered) {
    timers.look->reason = explain_none(tx.state().jobs.at(id).spec, decision);
    return;
  }
  const auto& [move, worth] = *decision.considered;
  const bool made = is_made(decision);
  timers.considered = {
      .at = tx.now(),
      .replica = move.replica,
      .agent = tx.state().replicas.at(move.replica).agent,
      .from = move.from,
      .to = move.to,
      .worth = worth,
      .verdict = made ? swarm::BalanceVerdict::kMoves : swarm::BalanceVerdict::kDoesNotPay,
      .reason = explain_considered(tx.state(), decision, made)};
}

// Said again when another replica or another stage is concerned.
void say_refused(Transaction& tx, JobId id, const swarm::BalanceDecision& decision) {
  std::string& said = tx.volatile_state().timers[id].balance_said;
  if (decision.verdict != swarm::BalanceVerdict::kDoesNotPay || !decision.considered) {
    return said.clear();
  }
  const swarm::Move& move = decision.considered->move;
  const std::string what = to_string(move.replica) + " to " + std::to_string(move.to);
  if (std::exchange(said, what) == what) return;
  const ReplicaRecord& replica = tx.state().replicas.at(move.replica);
  tx.event(Severity::kInfo, event_kind::kMoveRefused,
           {.job = id, .agent = replica.agent, .replica = replica.id},
           explain_considered(tx.state(), decision, false));
}

void show_placement(Transaction& tx, JobId id, bool has_new_move) {
  JobTimers& timers = tx.volatile_state().timers[id];
  timers.placement_shown_at = tx.now();
  PlacementReport report{.job = id, .at = tx.now()};
  const PlacementInput input = placement_input(tx, tx.state().jobs.at(id));
  report.forecast = forecast_now(input);
  report.loaded = loaded_devices(input);
  report.left_out = timers.unused;
  report.look = timers.look;
  report.move = timers.considered;
  report.plan = timers.compared;
  tx.show({std::make_shared<const PlacementReport>(std::move(report)), has_new_move});
}

bool is_to_be_shown(const Transaction& tx, JobId id) {
  const std::optional<Instant>& shown_at = tx.state().timers.at(id).placement_shown_at;
  return !shown_at || tx.now() >= *shown_at + kShowEvery;
}

// ---- moves for balance

void balance(Transaction& tx, JobId id, swarm::BalanceDecision decision) {
  const JobRecord& job = tx.state().jobs.at(id);
  const auto waits = [&](const swarm::Move& move) { return !may_begin(tx.state(), job, move); };
  if (is_made(decision) && waits(decision.considered->move)) decision.considered.reset();
  std::erase_if(decision.moves, waits);
  keep_report(tx, id, decision);
  say_refused(tx, id, decision);
  for (const swarm::Move& move : decision.moves) {
    const bool is_last = decision.considered && decision.considered->move == move;
    carry_out(tx, move,
              is_last
                  ? ": +" + rate_text(move.gain) + ", " + download_text(decision.considered->worth)
                  : ": +" + rate_text(move.gain));
  }
  if (decision.considered) show_placement(tx, id, true);
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

void look_at_stages(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  JobTimers& timers = tx.volatile_state().timers[id];
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

}  // namespace

void move_in_emergency(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (job.stages.size() < 2) return;
  for (const swarm::Move& move : decide_emergency(placement_input(tx, job))) {
    if (may_begin(tx.state(), tx.state().jobs.at(id), move)) carry_out(tx, move, {});
  }
}

void move_for_balance(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (job.phase != JobPhase::kTraining || !anchors_known(job)) return;
  if (job.stages.size() > 1) {
    look_at_stages(tx, id);
    look_for_better_plan(tx, id);
  }
  if (is_to_be_shown(tx, id)) show_placement(tx, id, false);
}

}  // namespace shoal::coordinator
