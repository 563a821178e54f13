// See joining.h.
#include "coordinator/core/replicas/joining.h"

#include <algorithm>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/copies.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

bool joins(const ReplicaRecord& replica) {
  return replica.state == ReplicaState::kLoading && replica.source.kind == SourceKind::kPeer;
}

bool has_state(const ReplicaRecord& joiner, const ReplicaRecord& other) {
  return other.job == joiner.job && other.stage == joiner.stage && other.id != joiner.id &&
         other.epoch == joiner.epoch && other.held_round >= 0 && !other.address.empty();
}

bool is_connected(const State& state, const ReplicaRecord& replica) {
  const Presence* presence = state.presence.find(replica.agent);
  return is_present(state, replica.id) && presence != nullptr && presence->connected;
}

// The chosen source first. In groups only that one, because no two replicas hold the same state.
std::vector<PeerAddress> holders(const State& state, const ReplicaRecord& joiner, bool connected) {
  std::vector<PeerAddress> found;
  const ReplicaId chosen = joiner.source.replica;
  const bool own = averages_in_groups(state.jobs.at(joiner.job));
  for (const auto& [id, other] : state.replicas) {
    if ((own && id != chosen) || !has_state(joiner, other)) continue;
    if (is_connected(state, other) == connected) found.push_back({id, other.address});
  }
  const auto first = std::ranges::find(found, chosen, &PeerAddress::replica);
  if (first != found.end()) std::rotate(found.begin(), first, first + 1);
  if (found.size() > kSourcesMax) found.resize(kSourcesMax);
  return found;
}

// Whether the next round is frozen already. In a stalled job that does not matter: no replica
// averages, and the frozen round may wait for this joiner.
bool is_too_late(const State& state, const JobRecord& job) {
  const RoundRecord* next = current_round(state, job);
  return next != nullptr && next->state != RoundState::kOpen && job.phase != JobPhase::kStalled;
}

// Asynchronous jobs are never unsettled: their commits follow one another without a pause, so what
// a joiner reports is believed.
bool is_unsettled(const JobRecord& job, StageIndex stage) {
  return !stage_of(job, stage).anchor && !averages_in_groups(job) &&
         job.spec.sync.algorithm != SyncAlgorithm::kAsync;
}

}  // namespace

void name_newest_round(Transaction& tx, ReplicaId joiner) {
  const ReplicaRecord& replica = tx.state().replicas.at(joiner);
  if (!joins(replica)) return;
  const JobRecord& job = tx.state().jobs.at(replica.job);
  const JobStage& stage = stage_of(job, replica.stage);
  const bool newer = replica.source.key.round != job.committed_round;
  StateSource source = replica.source;
  source.key.round = job.committed_round;
  if (newer) source.anchor = source.momentum = {};
  if (stage.anchor && !averages_in_groups(job)) {
    source.anchor = stage.anchor, source.momentum = stage.momentum;
  }
  if (source != replica.source) tx.replica(joiner).source = source;
}

std::vector<PeerAddress> state_sources(const State& state, const ReplicaRecord& joiner) {
  if (joiner.source.kind != SourceKind::kPeer) return {};
  const JobRecord& job = state.jobs.at(joiner.job);
  std::vector<PeerAddress> sources = holders(state, joiner, true);
  if (sources.empty() && !averages_in_groups(job)) {
    sources = copies_of_committed(state, job, joiner.stage);
  }
  // A source that the coordinator cannot reach may still be reachable for the joiner.
  if (sources.empty()) sources = holders(state, joiner, false);
  const bool is_copy = keeper_of(state, job, joiner.source.replica) != nullptr;
  if (sources.empty() && is_copy) sources = {{joiner.source.replica, joiner.source.address}};
  return sources;
}

bool may_enter(Transaction& tx, const Loaded& loaded) {
  const ReplicaRecord joiner = tx.state().replicas.at(loaded.replica);
  const JobRecord& job = tx.state().jobs.at(joiner.job);
  if (!joins(joiner)) return true;
  tx.volatile_state().loads[joiner.id].at = tx.now();  // this wait is not its fault
  // The agent keeps the commit record of the round that it was told, so no other is taken.
  const bool newest = loaded.key.round == job.committed_round;
  if (!newest || loaded.key != joiner.source.key) {
    Joiner& known = tx.volatile_state().joiners[joiner.id];
    if (!known.near_since) known.near_since = tx.now();
    send_assign(tx, joiner);
    return false;
  }
  if (!is_unsettled(job, joiner.stage) && !is_too_late(tx.state(), job)) return true;
  tx.volatile_state().joiners[joiner.id].waiting = loaded;
  return false;
}

// Needs a committed digest: without it, one source's word would stand against another's.
void name_refused_sources(Transaction& tx, const Loaded& loaded) {
  const ReplicaRecord joiner = tx.state().replicas.at(loaded.replica);
  if (!joins(joiner)) return;
  if (stage_of(tx.state().jobs.at(joiner.job), joiner.stage).anchor != loaded.anchor) return;
  for (const ReplicaId id : loaded.refused) {
    const ReplicaRecord* source = tx.state().replicas.find(id);
    if (source != nullptr && (source->job != joiner.job || source->stage != joiner.stage)) continue;
    tx.event(Severity::kWarning, event_kind::kSourceRefused,
             {.job = joiner.job,
              .agent = source == nullptr ? AgentId() : source->agent,
              .replica = id,
              .round = loaded.key.round},
             display_name(tx.state(), id) + " gave " + display_name(tx.state(), joiner.id) +
                 " bytes that differ from the committed state; it has fetched them from others. "
                 "Look at the memory and the line of that host");
  }
}

std::optional<Instant> awaited_since(const State& state, const JobRecord& job,
                                     const ReplicaRecord& joiner) {
  if (joiner.state != ReplicaState::kLoading) return std::nullopt;
  if (joiner.source.key != RoundKey{job.id, job.epoch, job.committed_round}) return std::nullopt;
  if (joiner.source.kind != SourceKind::kPeer) return joiner.created_at;
  const Joiner* known = state.joiners.find(joiner.id);
  return known == nullptr ? std::nullopt : known->near_since;
}

std::vector<Loaded> take_waiting(Transaction& tx, JobId job) {
  std::vector<Loaded> waiting;
  for (auto& [id, joiner] : tx.volatile_state().joiners) {
    if (!joiner.waiting || tx.state().replicas.at(id).job != job) continue;
    if (!is_present(tx.state(), id)) continue;
    waiting.push_back(*joiner.waiting);
    joiner.waiting.reset();
  }
  return waiting;
}

void refresh_sources(Transaction& tx, JobId job) {
  for (const ReplicaId id : live_replicas(tx.state(), job)) {
    const ReplicaRecord& replica = tx.state().replicas.at(id);
    const Joiner* known = tx.state().joiners.find(id);
    if (!joins(replica) || known == nullptr) continue;
    if (known->sources != state_sources(tx.state(), replica)) send_assign(tx, replica);
  }
}

}  // namespace shoal::coordinator
