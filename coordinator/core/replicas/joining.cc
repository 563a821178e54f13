// See joining.h.
#include "coordinator/core/replicas/joining.h"

#include <algorithm>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/copies.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

constexpr std::size_t kSourcesMax = 8;

bool joins(const ReplicaRecord& replica) {
  return replica.state == ReplicaState::kLoading && replica.source.kind == SourceKind::kPeer;
}

bool can_give(const State& state, const ReplicaRecord& joiner, const ReplicaRecord& other) {
  const Presence* presence = state.presence.find(other.agent);
  return other.job == joiner.job && other.stage == joiner.stage && other.id != joiner.id &&
         other.epoch == joiner.epoch && other.held_round >= 0 && !other.address.empty() &&
         is_present(state, other.id) && presence != nullptr && presence->connected;
}

// A stalled job has nobody who averages: its frozen round waits for replicas, this one maybe.
bool is_too_late(const State& state, const JobRecord& job) {
  const RoundRecord* next = current_round(state, job);
  return next != nullptr && next->state != RoundState::kOpen && job.phase != JobPhase::kStalled;
}

// Where commits follow one another without a pause the joiner is taken at its word.
bool is_unsettled(const JobRecord& job, StageIndex stage) {
  return !stage_of(job, stage).anchor && !averages_in_groups(job) &&
         job.spec.sync.algorithm() != SyncAlgorithm::kAsync;
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
  std::vector<PeerAddress> sources;
  if (joiner.source.kind != SourceKind::kPeer) return sources;
  const bool own =
      averages_in_groups(state.jobs.at(joiner.job));  // the state of one is nobody else's
  for (const auto& [id, other] : state.replicas) {
    if (own && id != joiner.source.replica) continue;
    if (can_give(state, joiner, other)) sources.push_back({id, other.address});
  }
  const auto peer = std::ranges::find(sources, joiner.source.replica, &PeerAddress::replica);
  if (peer != sources.end()) std::rotate(sources.begin(), peer, peer + 1);
  if (sources.size() > kSourcesMax) sources.resize(kSourcesMax);
  if (sources.empty() && !own) {
    sources = copies_of_committed(state, state.jobs.at(joiner.job), joiner.stage);
  }
  if (sources.empty()) sources = {{joiner.source.replica, joiner.source.address}};
  return sources;
}

bool may_enter(Transaction& tx, const Loaded& loaded) {
  const ReplicaRecord joiner = tx.state().replicas.at(loaded.replica);
  const JobRecord& job = tx.state().jobs.at(joiner.job);
  if (!joins(joiner)) return true;
  tx.volatile_state().loads[joiner.id].at = tx.now();  // it is not what is waited for
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

// Without a committed digest it would be one word against another.
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
                 " other bytes than those of the committed state; it has them from others now. "
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
