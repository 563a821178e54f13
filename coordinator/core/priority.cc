#include "coordinator/core/priority.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/releases.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kClaimEvery = seconds(1);  // planning a pipeline is expensive
constexpr std::size_t kNamedMax = 4;          // jobs in one sentence

const JobRecord& job_of(const State& state, JobId id) { return state.jobs.at(id); }

std::string name_of(const JobRecord& job) {
  return "job " + job.spec.name + " of priority " + std::to_string(job.priority);
}

void sort_in_order(const State& state, std::vector<JobId>& jobs) {
  std::ranges::sort(
      jobs, [&](JobId a, JobId b) { return comes_before(job_of(state, a), job_of(state, b)); });
}

// Absent replicas hold their devices, too.
std::size_t devices_of(const State& state, JobId id) {
  std::set<std::pair<AgentId, std::int32_t>> devices;
  for (const auto& [replica, record] : state.replicas) {
    if (record.job == id && !is_reducer(state, record))
      devices.emplace(record.agent, record.device);
  }
  return devices.size();
}

// Replicas of the stage that has the fewest, loading ones included.
std::int64_t fewest_live(const State& state, const JobRecord& job) {
  if (job.stages.empty()) return 0;
  std::vector<std::int64_t> counts(job.stages.size(), 0);
  for (const ReplicaId replica : live_replicas(state, job.id)) {
    ++counts.at(static_cast<std::size_t>(state.replicas.at(replica).stage));
  }
  return *std::min_element(counts.begin(), counts.end());
}

// A job that waits for absent replicas lacks none, because those hold their devices.
bool lacks_devices(const State& state, const JobRecord& job) {
  if (is_to_let_go(job) || state.restoring.contains(job.id) || job.rollback_at.ns != 0) {
    return false;
  }
  const bool may = job.phase == JobPhase::kQueued || job.phase == JobPhase::kGathering ||
                   job.phase == JobPhase::kStalled;
  return may && fewest_live(state, job) < job.spec.swarm.min_replicas;
}

bool is_yielded_to(const State& state, JobId id) {
  return std::ranges::any_of(
      state.timers, [&](const auto& live) { return job_of(state, live.first).yields_to == id; });
}

// Whether its devices will become free without a further command.
bool is_on_its_way_out(const JobRecord& job) {
  return job.phase == JobPhase::kFinalizing || is_to_let_go(job);
}

bool would_be_enough(const Transaction& tx, const JobRecord& job, const std::vector<JobId>& gone) {
  const PlacementDecision decision = decide_placement(placement_input(tx, job, gone));
  return decision.reason == PlacementReason::kPlaced && decision.missing == 0;
}

// The jobs that hold devices and may be told to yield to this job, the first to yield at the front.
// A job that waits for absent replicas may not: their state exists nowhere else.
std::vector<JobId> candidates(const State& state, const JobRecord& job) {
  std::vector<JobId> found;
  for (const auto& [id, timers] : state.timers) {
    const JobRecord& other = job_of(state, id);
    if (other.priority >= job.priority || is_on_its_way_out(other)) continue;
    if (state.restoring.contains(id) || other.rollback_at.ns != 0) continue;
    if (devices_of(state, id) > 0) found.push_back(id);
  }
  sort_in_order(state, found);
  std::ranges::reverse(found);
  return found;
}

// Removes from `yielding` every job without which the others are enough, the highest priority
// first.
void spare(const Transaction& tx, const JobRecord& job, const std::vector<JobId>& leaving,
           std::vector<JobId>& yielding) {
  for (std::size_t i = yielding.size(); i-- > 0;) {
    std::vector<JobId> others = yielding;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<JobId> gone = leaving;
    gone.insert(gone.end(), others.begin(), others.end());
    if (would_be_enough(tx, job, gone)) yielding = std::move(others);
  }
}

// The jobs that must yield, beside those that are yielding already. None: all devices that this job
// may take are not enough, or it needs no other job's devices.
std::optional<std::vector<JobId>> who_must_yield(const Transaction& tx, const JobRecord& job,
                                                 bool claims) {
  const State& state = tx.state();
  std::vector<JobId> leaving, yielding;
  if (would_be_enough(tx, job, {})) {  // it is about to be placed, and its claim stays
    return claims ? std::optional(yielding) : std::nullopt;
  }
  for (const auto& [id, timers] : state.timers) {
    const JobRecord& other = job_of(state, id);
    const bool stuck = other.reason == JobReason::kCheckpointFailing;
    if (id != job.id && is_on_its_way_out(other) && !stuck) leaving.push_back(id);
  }
  std::vector<JobId> gone = leaving;
  if (would_be_enough(tx, job, gone)) return yielding;
  for (const JobId id : candidates(state, job)) {
    yielding.push_back(id);
    gone.push_back(id);
    if (!would_be_enough(tx, job, gone)) continue;
    spare(tx, job, leaving, yielding);
    return yielding;
  }
  return std::nullopt;
}

void yield_to(Transaction& tx, JobId id, const JobRecord& claimant) {
  JobRecord& job = tx.job(id);
  job.yields_to = claimant.id;
  const RoundRecord* round = current_round(tx.state(), job);
  tx.event(Severity::kWarning, event_kind::kJobPreempted, {.job = id, .round = job.committed_round},
           name_of(job) + " gives its devices up for " + name_of(claimant) + ", which has " +
               std::to_string(fewest_live(tx.state(), claimant)) + " of " +
               std::to_string(claimant.spec.swarm.min_replicas) + " replicas");
  if (job.phase != JobPhase::kTraining) return;
  set_reason(
      tx, id, JobReason::kPreempted,
      (round == nullptr ? std::string()
                        : "round " + std::to_string(round->key.round) + " is finished first; ") +
          "its devices are for " + name_of(claimant));
}

// Keeps the claim while only devices of unreachable agents are missing: until such an agent is
// lost, it may be back at any moment.
void wait_for_lost_agents(Transaction& tx, JobId id, bool claimed) {
  JobTimers& timers = tx.volatile_state().timers[id];
  if (!claimed || !timers.claim_good_at) return;
  const Instant until = *timers.claim_good_at + tx.options().lease;
  timers.claims = tx.now() < until;
  if (timers.claims) tx.schedule_wakeup(id, until);
}

void end_claim(Transaction& tx, JobId id) {
  JobTimers& timers = tx.volatile_state().timers[id];
  timers.claims = false;
  timers.claimed_at.reset();
  timers.claim_good_at.reset();
  timers.short_since.reset();
}

// The first job that claims devices and comes before this one; null: none does.
const JobRecord* claimant_before(const State& state, const JobRecord& job) {
  const JobRecord* first = nullptr;
  for (const auto& [id, timers] : state.timers) {
    const JobRecord& other = job_of(state, id);
    if (!timers.claims || !comes_before(other, job)) continue;
    if (first == nullptr || comes_before(other, *first)) first = &other;
  }
  return first;
}

// The jobs of higher priority that have devices, and how many; empty: none.
std::string who_has_devices(const State& state, const JobRecord& job) {
  std::vector<JobId> higher;
  for (const auto& [id, timers] : state.timers) {
    const bool serves = job_of(state, id).priority > job.priority && devices_of(state, id) > 0;
    if (serves) higher.push_back(id);
  }
  sort_in_order(state, higher);
  std::string text;
  for (std::size_t i = 0; i < std::min(higher.size(), kNamedMax); ++i) {
    text += (i == 0 ? "" : ", ") + name_of(job_of(state, higher[i])) + " has " +
            std::to_string(devices_of(state, higher[i]));
  }
  return higher.size() > kNamedMax ? text + ", and others have more" : text;
}

// Once the job stores its last state, it completes the pause.
bool may_still_keep_devices(const JobRecord& job) { return job.phase != JobPhase::kFinalizing; }

}  // namespace

bool comes_before(const JobRecord& a, const JobRecord& b) {
  return std::tuple(-a.priority, a.id) < std::tuple(-b.priority, b.id);
}

std::vector<JobId> jobs_in_order(const State& state) {
  std::vector<JobId> live;
  for (const auto& [id, timers] : state.timers) live.push_back(id);
  sort_in_order(state, live);
  return live;
}

void claim_devices(Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx.state(), id);
  if (!lacks_devices(tx.state(), job)) return end_claim(tx, id);
  JobTimers& timers = tx.volatile_state().timers[id];
  if (!timers.short_since) timers.short_since = tx.now();
  const Instant due = *timers.short_since + tx.options().preempt_after;
  // A job that had claimed before a restart of the coordinator does not wait again.
  if (tx.now() < due && !is_yielded_to(tx.state(), id)) return tx.schedule_wakeup(id, due);
  if (timers.claimed_at && tx.now() < *timers.claimed_at + kClaimEvery) {
    return tx.schedule_wakeup(id, *timers.claimed_at + kClaimEvery);
  }
  timers.claimed_at = tx.now();
  const bool claimed = std::exchange(timers.claims, false);
  if (claimant_before(tx.state(), job) != nullptr) return;  // one after the other
  const auto yielding = who_must_yield(tx, job, claimed);
  if (!yielding) return wait_for_lost_agents(tx, id, claimed);
  timers.claims = true;
  timers.claim_good_at = tx.now();
  for (const JobId other : *yielding) yield_to(tx, other, job_of(tx.state(), id));
}

void follow_claim(Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx.state(), id);
  if (job.yields_to == JobId()) return;
  const JobTimers* claimant = tx.state().timers.find(job.yields_to);
  if ((claimant == nullptr || !claimant->claims) && may_still_keep_devices(job)) {
    tx.job(id).yields_to = JobId();
    if (job.reason == JobReason::kPreempted && job.phase == JobPhase::kTraining) {
      set_reason(tx, id, JobReason::kRunning);
    }
    return;
  }
  const bool restores = tx.state().restoring.contains(id);
  if (!restores && pauses_at_once(tx.state(), job)) give_devices_up(tx, id);
}

std::string who_yields(const State& state, JobId id) {
  std::string text;
  for (const auto& [other, timers] : state.timers) {
    const JobRecord& job = job_of(state, other);
    if (job.yields_to != id) continue;
    text += "; " + name_of(job) + " gives its devices up after round " +
            std::to_string(job.phase == JobPhase::kFinalizing ? job.committed_round
                                                              : next_key(job).round);
  }
  return text;
}

bool is_withheld(Transaction& tx, JobId id) {
  const JobRecord& job = job_of(tx.state(), id);
  const JobRecord* claimant = claimant_before(tx.state(), job);
  if (claimant == nullptr) return false;
  if (job.phase == JobPhase::kQueued) {
    set_reason(tx, id, JobReason::kHigherPriority,
               name_of(*claimant) + " gets the next free devices");
  }
  return true;
}

bool explain_priority(Transaction& tx, JobId id, std::int64_t missing) {
  const std::string who = who_has_devices(tx.state(), job_of(tx.state(), id));
  if (who.empty()) return false;
  const std::string count = missing == 0   ? "devices"
                            : missing == 1 ? "a device"
                                           : std::to_string(missing) + " devices";
  set_reason(tx, id, JobReason::kHigherPriority, "waits for " + count + "; " + who);
  return true;
}

}  // namespace shoal::coordinator
