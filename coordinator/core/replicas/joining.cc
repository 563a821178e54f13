// See joining.h.
#include "coordinator/core/replicas/joining.h"

#include <algorithm>

#include "coordinator/core/records/event_kinds.h"
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
         other.lineage == joiner.lineage && other.held_round >= 0 && !other.address.empty() &&
         is_present(state, other.id) && presence != nullptr && presence->connected;
}

// A stalled job has nobody who averages: its sealed round waits for replicas, this one maybe.
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

void name_newest_round(Turn& turn, ReplicaId joiner) {
  const ReplicaRecord& replica = turn.state().replicas.at(joiner);
  if (!joins(replica)) return;
  const JobRecord& job = turn.state().jobs.at(replica.job);
  const JobStage& stage = stage_of(job, replica.stage);
  const bool newer = replica.source.key.round != job.committed_round;
  StateSource source = replica.source;
  source.key.round = job.committed_round;
  if (newer) source.anchor = source.momentum = {};
  if (stage.anchor && !averages_in_groups(job)) {
    source.anchor = stage.anchor, source.momentum = stage.momentum;
  }
  if (source != replica.source) turn.replica(joiner).source = source;
}

std::vector<PeerAddress> state_sources(const State& state, const ReplicaRecord& joiner) {
  std::vector<PeerAddress> sources;
  if (joiner.source.kind != SourceKind::kPeer) return sources;
  const bool own =
      averages_in_groups(state.jobs.at(joiner.job));  // the state of one is nobody else's
  for (const auto& [id, other] : state.replicas) {
    if (own && id != joiner.source.donor) continue;
    if (can_give(state, joiner, other)) sources.push_back({id, other.address});
  }
  const auto donor = std::ranges::find(sources, joiner.source.donor, &PeerAddress::replica);
  if (donor != sources.end()) std::rotate(sources.begin(), donor, donor + 1);
  if (sources.size() > kSourcesMax) sources.resize(kSourcesMax);
  if (sources.empty()) sources = {{joiner.source.donor, joiner.source.donor_address}};
  return sources;
}

bool may_enter(Turn& turn, const Loaded& loaded) {
  const ReplicaRecord joiner = turn.state().replicas.at(loaded.replica);
  const JobRecord& job = turn.state().jobs.at(joiner.job);
  if (!joins(joiner)) return true;
  turn.volatile_state().loads[joiner.id].at = turn.now();  // it is not what is waited for
  // The agent keeps the commit record of the round that it was told, so no other is taken.
  const bool newest = loaded.key.round == job.committed_round;
  if (!newest || loaded.key != joiner.source.key) {
    Joiner& known = turn.volatile_state().joiners[joiner.id];
    if (!known.near_since) known.near_since = turn.now();
    send_assign(turn, joiner);
    return false;
  }
  if (!is_unsettled(job, joiner.stage) && !is_too_late(turn.state(), job)) return true;
  turn.volatile_state().joiners[joiner.id].waiting = loaded;
  return false;
}

// Without a committed digest it would be one word against another.
void name_refused_sources(Turn& turn, const Loaded& loaded) {
  const ReplicaRecord joiner = turn.state().replicas.at(loaded.replica);
  if (!joins(joiner)) return;
  if (stage_of(turn.state().jobs.at(joiner.job), joiner.stage).anchor != loaded.anchor) return;
  for (const ReplicaId id : loaded.refused) {
    const ReplicaRecord* source = turn.state().replicas.find(id);
    if (source != nullptr && (source->job != joiner.job || source->stage != joiner.stage)) continue;
    turn.event(Severity::kWarning, event_kind::kSourceRefused,
               {.job = joiner.job,
                .agent = source == nullptr ? AgentId() : source->agent,
                .replica = id,
                .round = loaded.key.round},
               called(turn.state(), id) + " gave " + called(turn.state(), joiner.id) +
                   " other bytes than those of the committed state; it has them from others now. "
                   "Look at the memory and the line of that host");
  }
}

std::optional<Instant> awaited_since(const State& state, const JobRecord& job,
                                     const ReplicaRecord& joiner) {
  if (joiner.state != ReplicaState::kLoading) return std::nullopt;
  if (joiner.source.key != RoundKey{job.id, job.lineage, job.committed_round}) return std::nullopt;
  if (joiner.source.kind != SourceKind::kPeer) return joiner.created_at;
  const Joiner* known = state.joiners.find(joiner.id);
  return known == nullptr ? std::nullopt : known->near_since;
}

std::vector<Loaded> take_waiting(Turn& turn, JobId job) {
  std::vector<Loaded> waiting;
  for (auto& [id, joiner] : turn.volatile_state().joiners) {
    if (!joiner.waiting || turn.state().replicas.at(id).job != job) continue;
    if (!is_present(turn.state(), id)) continue;
    waiting.push_back(*joiner.waiting);
    joiner.waiting.reset();
  }
  return waiting;
}

void refresh_sources(Turn& turn, JobId job) {
  for (const ReplicaId id : live_replicas(turn.state(), job)) {
    const ReplicaRecord& replica = turn.state().replicas.at(id);
    const Joiner* known = turn.state().joiners.find(id);
    if (!joins(replica) || known == nullptr) continue;
    if (known->sources != state_sources(turn.state(), replica)) send_assign(turn, replica);
  }
}

}  // namespace shoal::coordinator
