#include "coordinator/core/replicas/replanning.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/number_text.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/replicas/recutting.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kLookEvery = seconds(120);
constexpr Duration kPlansApart = seconds(1);
constexpr Duration kRecutEvery = seconds(1800);  // at most, of one job
constexpr double kToldAgain = 0.25;              // of a forecast that was told
constexpr double kNoise = 0.1;                   // of a measurement
constexpr std::size_t kValuesPerDevice = 5;      // of measured(); the first one names it

// Every replica serves, so that the present placement is what it is meant to be.
bool is_at_rest(const State& state, JobId id) {
  return absent_replicas(state, id).empty() &&
         std::ranges::all_of(live_replicas(state, id), [&](ReplicaId replica) {
           const ReplicaRecord& record = state.replicas.at(replica);
           return record.held_round >= 0 && !is_leaving(state, record);
         });
}

// What a plan goes by, kValuesPerDevice numbers for each device.
std::vector<double> measured(const PlacementInput& anew) {
  constexpr double kDevicesMax = 4096;
  std::vector<double> values;
  for (const FreeDevice& device : anew.free) {
    const AgentLine& line = device.at.line;
    values.insert(values.end(), {static_cast<double>(device.agent.n) * kDevicesMax + device.device,
                                 device.gflops * device.availability, line.up, line.down,
                                 line.round_trip.seconds()});
  }
  return values;
}

bool is_same(const std::vector<double>& before, const std::vector<double>& now) {
  if (before.size() != now.size()) return false;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double most = std::max(std::fabs(before[i]), std::fabs(now[i]));
    const double noise = i % kValuesPerDevice == 0 ? 0 : kNoise;
    if (std::fabs(before[i] - now[i]) > noise * most) return false;
  }
  return true;
}

// The present placement, by the speeds that a plan goes by: not by those that were seen in a stage,
// which a plan for other devices cannot know.
double present_forecast(const Transaction& tx, JobId id, const PlacementInput& anew) {
  PlacementInput input = placement_input(tx, tx.state().jobs.at(id));
  input.free = anew.free;
  input.ends = anew.ends;
  for (PlacedReplica& replica : input.live) {
    replica.service = {};
    for (const FreeDevice& device : anew.free) {
      if (device.agent != replica.agent || device.device != replica.device) continue;
      replica.gflops = device.gflops;
      replica.availability = device.availability;
    }
  }
  return forecast_now(input).tokens_per_s;
}

std::string figures(const JobRecord& job, const PlanComparison& compared) {
  return job.spec.name + " should train " + three_figures(compared.present) +
         " tokens/s as it is placed and " + three_figures(compared.best) +
         " placed anew, by the speeds and lines that are measured now";
}

void recut(Transaction& tx, JobId id, const PlanComparison& compared, bool other_cut) {
  const JobRecord& job = tx.state().jobs.at(id);
  const RoundNumber last = next_key(job).round;
  const std::string why = why_cut_stays(tx.state(), job);
  tx.event(Severity::kInfo, event_kind::kPipelineRecut, {.job = id, .round = job.committed_round},
           figures(job, compared) + ": that happens after round " + std::to_string(last) +
               (other_cut ? ", with another cut" : "") + " (swarm.recut)" +
               (why.empty() ? "" : "; its cut stays, because " + why));
  JobRecord& record = tx.job(id);
  record.recuts = true;
  record.recut_at = tx.now();
  set_reason(tx, id, JobReason::kRecutting, "round " + std::to_string(last) + " is finished first");
}

void tell_better(Transaction& tx, JobId id, const PlanComparison& compared) {
  double& told = tx.volatile_state().timers[id].plan_watch.told;
  if (std::fabs(told - compared.best) <= kToldAgain * compared.best) return;
  told = compared.best;
  const JobRecord& job = tx.state().jobs.at(id);
  tx.event(Severity::kInfo, event_kind::kPlanChanged, {.job = id, .round = job.committed_round},
           figures(job, compared) + " (shoal job pause " + job.spec.name +
               ", then resume; a job with swarm.recut = true is placed anew by itself)");
}

bool may_recut(const Transaction& tx, const JobRecord& job) {
  return job.spec.swarm.recut && !is_trained(job) &&
         (job.recut_at.ns == 0 || tx.now() - job.recut_at >= kRecutEvery);
}

}  // namespace

void look_for_better_plan(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  PlanWatch& watch = tx.volatile_state().timers[id].plan_watch;
  if (!watch.looked_at) watch.looked_at = tx.now();
  if (tx.now() < *watch.looked_at + kLookEvery) {
    return tx.schedule_wakeup(id, *watch.looked_at + kLookEvery);
  }
  const std::optional<Instant>& planned_at = tx.state().planned_at;
  if (planned_at && tx.now() < *planned_at + kPlansApart) {
    return tx.schedule_wakeup(id, *planned_at + kPlansApart);
  }
  if (is_to_let_go(job) || !is_at_rest(tx.state(), id)) return;
  watch.looked_at = tx.now();
  PlacementInput anew = placement_input(tx, job, {id});
  anew.live.clear();
  std::vector<double> now = measured(anew);
  if (is_same(watch.measured, now)) return;
  watch.measured = std::move(now);
  tx.volatile_state().planned_at = tx.now();
  const PlacementDecision best = with_best_cut(tx, job, anew, {id});
  const PlanComparison compared{tx.now(), present_forecast(tx, id, anew),
                                best.forecast.tokens_per_s};
  if (best.reason != PlacementReason::kPlaced || compared.present <= 0) return;
  tx.volatile_state().timers[id].compared = compared;
  if (compared.best < kMuchBetter * compared.present) {
    watch.told = 0;
  } else if (may_recut(tx, job)) {
    recut(tx, id, compared, best.cut != cut_of(job));
  } else {
    tell_better(tx, id, compared);
  }
}

void follow_recut(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (!job.recuts || job.phase == JobPhase::kTraining) return;
  const bool finalizes = job.phase == JobPhase::kFinalizing;
  const auto& again = tx.state().timers.at(id).checkpoint_again_at;
  const bool fails = again && tx.now() < *again;
  // With sync.overlap_steps its replicas are ahead of an order that begins at the boundary, so they
  // have to be released.
  const bool can_go_on = fails && job.spec.sync.overlap_steps == Steps(0) && !is_trained(job);
  if (finalizes && !can_go_on) return;
  tx.job(id).recuts = false;
  if (finalizes && !is_to_let_go(job)) {
    transition(tx, id, JobPhase::kTraining, JobReason::kRunning);
  }
}

}  // namespace shoal::coordinator
