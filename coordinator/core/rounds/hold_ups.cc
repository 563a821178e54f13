#include "coordinator/core/rounds/hold_ups.h"

#include <algorithm>

#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

Duration longest_beat(const Options& options) {
  return options.heartbeat_every + options.heartbeat_every / 2;
}

Duration longest_patience(const Options& options) {
  return std::min(options.lease, std::max(options.reconnect_grace, options.heartbeat_every * 2));
}

const Presence* stream_of(const State& state, ReplicaId replica) {
  const Presence* presence = state.presence.find(state.replicas.at(replica).agent);
  return presence != nullptr && presence->connected ? presence : nullptr;
}

bool is_heard(const Transaction& tx, ReplicaId replica) {
  const Presence* stream = stream_of(tx.state(), replica);
  return stream != nullptr && tx.now() < tx.deadline(stream->last_seen, longest_beat(tx.options()));
}

bool any_heard(const Transaction& tx, const std::vector<ReplicaId>& replicas) {
  return std::ranges::any_of(replicas, [&](ReplicaId id) { return is_heard(tx, id); });
}

// The silence after which waiting costs the others more than the silent replica's work is worth.
Duration patience(const Transaction& tx, const RoundKey& key, Instant last_seen) {
  const std::vector<ReplicaId> all = with_assigned_data(tx.state(), key);
  const auto others = std::ranges::count_if(all, [&](ReplicaId id) { return is_heard(tx, id); });
  const Duration trained = last_seen - tx.state().rounds.at(key).opened_at;
  const Duration most = longest_patience(tx.options());
  const Duration least = std::min(most, longest_beat(tx.options()));
  return std::clamp(trained / std::max<std::int64_t>(others, 1), least, most);
}

// Whether at least two replicas that are heard hold the stage of this one.
bool can_do_without(const Transaction& tx, ReplicaId id) {
  const ReplicaRecord& replica = tx.state().replicas.at(id);
  const JobRecord& job = tx.state().jobs.at(replica.job);
  const auto there = in_sync_replicas(tx.state(), job, replica.stage);
  return std::ranges::count_if(there, [&](ReplicaId other) { return is_heard(tx, other); }) >= 2;
}

// Whether the round has waited a whole lease since half of its members had reported.
bool stood_still_long(const Transaction& tx, const RoundKey& key) {
  std::vector<Instant> reports;
  for (const ReplicaId id : round_replicas(tx.state(), key)) {
    const Instant at = tx.state().contributions.at({key, id}).reported_at;
    reports.push_back(at.ns != 0 ? at : tx.now());
  }
  if (reports.empty()) return false;
  const auto half = reports.begin() + (std::ssize(reports) - 1) / 2;
  std::ranges::nth_element(reports, half);
  return tx.now() >= tx.deadline(*half, tx.options().lease);
}

// Skips a replica whose stream has closed, because that has a limit of its own.
void add(const Transaction& tx, const RoundKey& key, ReplicaId replica, HoldUps& found) {
  if (!can_do_without(tx, replica) && !stood_still_long(tx, key)) return;
  const Presence* stream = stream_of(tx.state(), replica);
  if (stream == nullptr) return;
  const Instant due = tx.deadline(stream->last_seen, patience(tx, key, stream->last_seen));
  if (tx.now() >= due) return found.over.push_back(tx.state().replicas.at(replica).agent);
  found.wakeup_at = std::min(due, found.wakeup_at.value_or(due));
}

// Acts when at least half have reported, and all others are silent.
void look_at_reports(const Transaction& tx, const RoundKey& key, HoldUps& found) {
  std::vector<ReplicaId> ready, waited_for;
  for (const ReplicaId id : with_assigned_data(tx.state(), key)) {
    const auto& contribution = tx.state().contributions.at({key, id});
    (contribution.state == ContributionState::kReported ? ready : waited_for).push_back(id);
  }
  if (ready.size() < waited_for.size() || !any_heard(tx, ready) || any_heard(tx, waited_for)) {
    return;
  }
  for (const ReplicaId id : waited_for) add(tx, key, id, found);
}

// Whether this member of an attempt may never have got its plan.
bool silent_since(const State& state, ReplicaId member, Instant begun) {
  const Presence* stream = stream_of(state, member);
  return stream != nullptr && stream->last_seen <= begun;
}

// Limits the wait for members that have been silent since before the attempt began. A member that
// was heard since then keeps its lease, because averaging takes time.
void look_at_votes(const Transaction& tx, const RoundRecord& round, HoldUps& found) {
  const State& state = tx.state();
  for (ReduceIndex reduce = 0; reduce < reduce_count(state, round.key); ++reduce) {
    if (reduce_at(round, reduce).given_up) continue;
    std::vector<ReplicaId> members = members_of(state, round.key, reduce);
    std::erase_if(members, [&](ReplicaId id) { return !is_present(state, id); });
    if (!any_heard(tx, members)) continue;
    for (const ReplicaId id : members) {
      const bool voted = state.contributions.at({round.key, id}).state == ContributionState::kVoted;
      const Instant begun = reduce_at(round, reduce).attempt_started_at;
      if (!voted && silent_since(state, id, begun)) add(tx, round.key, id, found);
    }
  }
}

}  // namespace

HoldUps find_hold_ups(const Transaction& tx) {
  HoldUps found;
  for (const auto& [id, timers] : tx.state().timers) {
    const JobRecord& job = tx.state().jobs.at(id);
    const RoundRecord* round = job.stages.empty() ? nullptr : current_round(tx.state(), job);
    if (round == nullptr) continue;
    if (round->state == RoundState::kOpen) {
      look_at_reports(tx, round->key, found);
    } else {
      look_at_votes(tx, *round, found);
    }
  }
  return found;
}

}  // namespace shoal::coordinator
