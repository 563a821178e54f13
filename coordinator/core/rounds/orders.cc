#include "coordinator/core/rounds/orders.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/core/decisions/balance.h"
#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/core/rounds/links.h"
#include "coordinator/core/rounds/paces.h"
#include "coordinator/core/state/round_facts.h"
#include "outer_opt/core/round/lease_runs.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::coordinator {
namespace {

std::int64_t count_routers(const State& state, const std::vector<ReplicaId>& replicas) {
  return std::count_if(replicas.begin(), replicas.end(),
                       [&](ReplicaId id) { return state.replicas.at(id).stage == 0; });
}

// What each of these replicas draws in one inner step; only routers draw. A step of a pipeline is
// as large as it ever was: a router that moved or is gone has its share drawn by the others.
std::vector<std::int64_t> sequences_per_step(const State& state, Instant now, const RoundKey& key,
                                             const std::vector<ReplicaId>& replicas) {
  const JobRecord& job = state.jobs.at(key.job);
  const TrainSpec& train = job.spec.train;
  if (job.stages.size() == 1) return std::vector<std::int64_t>(replicas.size(), train.batch);
  std::vector<std::int64_t> counts(replicas.size(), 0);
  std::vector<ReplicaId> routers;
  for (const ReplicaId replica : replicas) {
    if (state.replicas.at(replica).stage == 0) routers.push_back(replica);
  }
  std::vector<ReplicaId> others = with_assigned_data(state, key);
  std::erase_if(others, [&](ReplicaId id) {
    return std::find(replicas.begin(), replicas.end(), id) != replicas.end();
  });
  const auto count = static_cast<std::int64_t>(routers.size());
  const bool all = count_routers(state, others) == 0;
  const std::int64_t batches = all ? std::max(job.routers, count) : count;
  const auto shares =
      share_batch(batches * train.batch, train.microbatch, paces_of(state, now, job, routers));
  for (std::size_t i = 0, router = 0; i < replicas.size(); ++i) {
    if (state.replicas.at(replicas[i]).stage == 0) counts[i] = shares[router++];
  }
  return counts;
}

void note_routers(Transaction& tx, const RoundKey& key) {
  const JobRecord& job = tx.state().jobs.at(key.job);
  const std::int64_t routers = count_routers(tx.state(), with_assigned_data(tx.state(), key));
  if (job.stages.size() > 1 && routers > job.routers) tx.job(key.job).routers = routers;
}

// Inner steps per second; 0: not known.
double speed_in(const ContributionRecord& contribution) {
  if (contribution.report.compute_s <= 0) return 0;
  return static_cast<double>(contribution.report.steps.count()) / contribution.report.compute_s;
}

// Measured in the last committed round.
double measured_speed(const State& state, const RoundKey& committed, ReplicaId replica) {
  const ContributionRecord* last = state.contributions.find({committed, replica});
  return last == nullptr ? 0 : speed_in(*last);
}

// The most that a round by time may take: half as many again as the fastest of the last round would
// in the time that is left, all steps that are left while nobody's speed is known. A replica that
// enters late has no speed of its own yet, and is no faster than that.
Steps steps_by_time(const State& state, Instant now, const RoundRecord& round) {
  const JobRecord& job = state.jobs.at(round.key.job);
  const Steps left = round.to_step - round.from_step;
  const double fastest = speeds_of_last_round(state, job).fastest;
  if (fastest == 0) return left;
  const double most = 1.5 * fastest * time_left(job, round, now).seconds();
  return std::min(left, Steps(static_cast<std::int64_t>(std::min(most, 1e15)) + 1));
}

// How many inner steps of the round each of these replicas takes.
std::vector<Steps> steps_of(const State& state, Instant now, const RoundRecord& round,
                            const std::vector<ReplicaId>& replicas) {
  const JobRecord& job = state.jobs.at(round.key.job);
  const Steps all = round.to_step - round.from_step;
  if (all.count() > 0 && job.spec.sync.every_s > 0) {
    return std::vector<Steps>(replicas.size(), steps_by_time(state, now, round));
  }
  if (all.count() == 0 || job.spec.sync.balance == Balance::kEqual) {
    return std::vector<Steps>(replicas.size(), all);
  }
  std::vector<ReplicaSpeed> speeds;
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  for (const ReplicaId replica : replicas) {
    speeds.push_back({measured_speed(state, committed, replica), speed_of(state, replica)});
  }
  return balanced_steps(all, speeds);
}

// With sync.overlap_steps a lease continues behind the boundary, and that of a replica which
// continues begins there (step_cursor.h).
std::int64_t sequences_to_lease(const JobRecord& job, Steps from, Steps to, std::int64_t per_step,
                                const ContributionRecord& contribution) {
  const Steps all = to + outer_opt::overlap_at(job.spec, to) - from;
  const std::int64_t ahead = outer_opt::overlap_at(job.spec, from).count() * per_step;
  const std::int64_t has = count_sequences(untrained_leases(job, contribution));
  return all.count() * per_step - std::min(ahead, has);
}

// Behind what a replica was leased last, or trained of what it was leased in the last round; -1:
// nothing.
std::int64_t lease_end(const State& state, const JobRecord& job, const RoundKey& key,
                       ReplicaId replica) {
  const ContributionRecord* open = state.contributions.find({key, replica});
  if (open != nullptr && !open->leases.empty()) {
    return open->leases.back().first + open->leases.back().count;
  }
  const ContributionRecord* last =
      state.contributions.find({{job.id, job.epoch, job.committed_round}, replica});
  if (last == nullptr) return -1;
  const std::vector<DataLease> trained =
      outer_opt::without(last->leases, untrained_leases(job, *last));
  return trained.empty() ? -1 : trained.back().first + trained.back().count;
}

LeasePlace lease_place(const State& state, const JobRecord& job, const RoundKey& key,
                       ReplicaId replica) {
  LeasePlace place{job.lease_unit, -1, {}};
  if (place.unit == 0) return place;
  place.from = lease_end(state, job, key, replica);
  for (const ReplicaId other : live_replicas(state, job.id)) {
    if (other == replica) continue;
    place.others.push_back(lease_end(state, job, key, other));
  }
  return place;
}

// After what it has; nothing more when that fills an order.
void lease_more(JobRecord& job, ContributionRecord& contribution, std::int64_t count,
                const LeasePlace& place) {
  const std::size_t runs = untrained_leases(job, contribution).size();
  if (runs >= kLeaseRunsMax) return;
  for (const DataLease& run :
       lease_at({job.next_sequence, job.returned}, count, kLeaseRunsMax - runs, place)) {
    outer_opt::append(contribution.leases, run);
  }
}

// Where a replica with its own number of steps is to report, by what it was leased.
Steps own_boundary(const JobRecord& job, const RoundRecord& round, const OpenRound& order) {
  const Steps leased(count_sequences(order.leases) / job.spec.train.batch);
  const Steps end = round.from_step + leased, ahead = job.spec.sync.overlap_steps;
  if (ahead == Steps(0)) return end;
  if (end >= job.spec.train.steps) return std::min(round.to_step, end);
  return std::max(round.from_step, end - ahead);
}

OpenRound order_with(const JobRecord& job, const RoundRecord& round,
                     const ContributionRecord& contribution, bool coding) {
  OpenRound order;
  order.key = round.key;
  order.leases = untrained_leases(job, contribution);
  const bool own = job.spec.sync.balance == Balance::kSpeed || job.spec.sync.every_s > 0 ||
                   job.spec.sync.algorithm == SyncAlgorithm::kAsync;
  order.from_step = round.from_step;
  order.to_step = own && job.stages.size() == 1 ? own_boundary(job, round, order) : round.to_step;
  order.fragment = fragment_of_round(job, round);
  order.aborts = round.aborts;
  order.entropy_coding = coding;
  return order;
}

}  // namespace

SpeedRange speeds_of_last_round(const State& state, const JobRecord& job) {
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  SpeedRange range;
  for (const auto& [id, contribution] : state.contributions) {
    if (contribution.key != committed) continue;
    const double speed = speed_in(contribution);
    if (speed == 0) continue;
    range.fastest = std::max(range.fastest, speed);
    range.slowest = range.slowest == 0 ? speed : std::min(range.slowest, speed);
  }
  return range;
}

Duration time_left(const JobRecord& job, const RoundRecord& round, Instant now) {
  const Duration passed = now - round.opened_at;
  return std::max(Duration{}, seconds(job.spec.sync.every_s) - passed);
}

ContributionRecord& contribution_in(Transaction& tx, const RoundKey& key, ReplicaId replica) {
  if (!tx.state().contributions.contains({key, replica})) {
    ContributionRecord record;
    record.key = key;
    record.replica = replica;
    record.agent = tx.state().replicas.at(replica).agent;
    record.stage = tx.state().replicas.at(replica).stage;
    tx.add(std::move(record));
  }
  return tx.contribution(key, replica);
}

std::vector<OpenRound> assign_data(Transaction& tx, const RoundKey& key,
                                   const std::vector<ReplicaId>& replicas) {
  const RoundRecord round = tx.state().rounds.at(key);
  SHOAL_CHECK(round.state == RoundState::kOpen, "nothing trained for it would count");
  const std::vector<std::int64_t> per_step =
      sequences_per_step(tx.state(), tx.now(), key, replicas);
  const std::vector<Steps> steps = steps_of(tx.state(), tx.now(), round, replicas);
  const bool coding = codes_between_stages(tx.state(), tx.now(), key.job);
  std::vector<OpenRound> orders;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    ContributionRecord& contribution = contribution_in(tx, key, replicas[i]);
    const LeasePlace place = lease_place(tx.state(), tx.state().jobs.at(key.job), key, replicas[i]);
    JobRecord& job = tx.job(key.job);
    const Steps to_step = round.from_step + steps[i];
    const std::int64_t count =
        sequences_to_lease(job, round.from_step, to_step, per_step[i], contribution);
    lease_more(job, contribution, count, place);
    contribution.state = ContributionState::kTraining;
    contribution.reject_reason = RejectReason::kNone;
    orders.push_back(order_with(job, round, contribution, coding));
    orders.back().measure = peers_to_measure(tx.state(), tx.now(), replicas[i]);
  }
  note_routers(tx, key);
  return orders;
}

OpenRound order_of(const State& state, Instant now, const RoundRecord& round, ReplicaId replica) {
  return order_with(state.jobs.at(round.key.job), round,
                    state.contributions.at({round.key, replica}),
                    codes_between_stages(state, now, round.key.job));
}

std::vector<DataLease> untrained_leases(const JobRecord& job,
                                        const ContributionRecord& contribution) {
  const RoundReport& report = contribution.report;
  const std::int64_t trained = stage_count(job) == 1
                                   ? report.steps.count() * job.spec.train.batch
                                   : report.drawn.count() / job.spec.model.context;
  std::vector<DataLease> rest = contribution.leases;
  outer_opt::take_first(rest, trained);
  return rest;
}

void open_round(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  SHOAL_CHECK(current_round(tx.state(), job) == nullptr, "the round is open: its leases would go");
  SHOAL_CHECK(!job.stages.empty() && !is_trained(job));
  RoundRecord record;
  record.key = next_key(job);
  record.from_step = job.committed_step;
  record.to_step = job.committed_step + outer_opt::round_length(job.spec.sync);
  // How far an asynchronous job is when its replicas report nobody knows: whole leases to its end.
  if (job.spec.sync.algorithm != SyncAlgorithm::kAsync) {
    record.to_step = std::min(record.to_step, job.spec.train.steps);
  }
  record.opened_at = tx.now();
  record.reduces.resize(job.stages.size());
  tx.add(std::move(record));
  JobTimers& timers = tx.volatile_state().timers[id];
  timers.close_sent = false;
  timers.reduces.clear();
}

}  // namespace shoal::coordinator
