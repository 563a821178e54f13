// See copies.h.
#include "coordinator/core/replicas/copies.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/decisions/buddies.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/state/health_record.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"
#include "job/training_vectors.h"

namespace shoal::coordinator {
namespace {

constexpr std::int32_t kFaultsMax = 3;

RoundKey committed_key(const JobRecord& job) { return {job.id, job.epoch, job.committed_round}; }

// Each shared vector as held and as being fetched (replica/core/state_copy.h).
Bytes copy_size(const JobRecord& job, StageIndex stage) {
  const std::int64_t values = shared_vectors(job.spec) * stage_of(job, stage).value_count;
  return Bytes(2 * static_cast<std::int64_t>(sizeof(float)) * values);
}

bool is_going_on(JobPhase phase) {
  return phase == JobPhase::kTraining || phase == JobPhase::kStalled ||
         phase == JobPhase::kFinalizing;
}

const KeptCopy* copy_of_stage(const ReplicaRecord& keeper, StageIndex stage) {
  const auto found = std::ranges::find(keeper.copies, stage, &KeptCopy::stage);
  return found == keeper.copies.end() ? nullptr : &*found;
}

bool can_be_told(const State& state, const ReplicaRecord& replica) {
  return is_present(state, replica.id) && is_within_reach(state, replica.id);
}

// The last report of the trainer about this copy; null: none, or that it holds nothing.
const HeldCopy* held_by(const State& state, ReplicaId keeper, ReplicaId copy) {
  const HostedCopies* hosted = state.copies.find(keeper);
  if (hosted == nullptr) return nullptr;
  const auto found = std::ranges::find(hosted->held, copy, &HeldCopy::copy);
  return found == hosted->held.end() ? nullptr : &*found;
}

bool holds_committed(const State& state, const JobRecord& job, const ReplicaRecord& keeper,
                     const KeptCopy& copy) {
  const HeldCopy* held = held_by(state, keeper.id, copy.id);
  const JobStage& stage = stage_of(job, copy.stage);
  return held != nullptr && stage.anchor && held->key == committed_key(job) &&
         held->anchor == stage.anchor && held->momentum == stage.momentum;
}

// ---- who keeps what

// The replica of each agent that would keep copies: the first one that takes part.
FlatMap<AgentId, ReplicaId> possible_keepers(const State& state, const JobRecord& job) {
  FlatMap<AgentId, ReplicaId> keepers;
  for (const ReplicaId id : in_sync_replicas(state, job)) {
    const ReplicaRecord& replica = state.replicas.at(id);
    const AgentRecord& agent = state.agents.at(replica.agent);
    const bool fit = can_be_told(state, replica) && !replica.address.empty() &&
                     !is_leaving(state, replica) && !agent.cordoned && !is_quarantined(agent);
    if (fit && !keepers.contains(replica.agent)) keepers.put(replica.agent, id);
  }
  return keepers;
}

// The memory that this agent can lend beside what it keeps for other jobs.
Bytes room_of(const Transaction& tx, AgentId agent, JobId job) {
  Bytes room = tx.options().copies_max;
  for (const auto& [id, replica] : tx.state().replicas) {
    if (replica.agent != agent || replica.job == job) continue;
    const JobRecord& other = tx.state().jobs.at(replica.job);
    for (const KeptCopy& copy : replica.copies) room -= copy_size(other, copy.stage);
  }
  return std::max(room, Bytes());
}

CopiedStage copied_stage(const State& state, const JobRecord& job, StageIndex stage,
                         const FlatMap<AgentId, ReplicaId>& keepers) {
  CopiedStage copied{.size = copy_size(job, stage), .serving = {}, .keeping = {}};
  for (const auto& [id, replica] : state.replicas) {
    if (replica.job != job.id || is_reducer(state, replica)) continue;
    if (replica.stage == stage) copied.serving.push_back(replica.agent);
    const ReplicaId* keeper = keepers.find(replica.agent);
    const bool keeps = keeper != nullptr && *keeper == id;
    if (keeps && copy_of_stage(replica, stage) != nullptr) copied.keeping.push_back(replica.agent);
  }
  return copied;
}

BuddiesInput buddies_input(const Transaction& tx, const JobRecord& job,
                           const FlatMap<AgentId, ReplicaId>& keepers) {
  BuddiesInput input{.wanted = job.spec.checkpoint.buddies, .agents = {}, .stages = {}};
  for (const auto& [id, replica] : keepers) {
    const AgentRecord& agent = tx.state().agents.at(id);
    input.agents.push_back({.agent = id,
                            .domain = domain_of(agent),
                            .availability = availability_of(tx, agent),
                            .room = room_of(tx, id, job.id)});
  }
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    input.stages.push_back(copied_stage(tx.state(), job, stage, keepers));
  }
  return input;
}

bool all_hold(const State& state, const JobRecord& job, StageIndex stage,
              const std::vector<AgentId>& agents, const FlatMap<AgentId, ReplicaId>& keepers) {
  return std::ranges::all_of(agents, [&](AgentId agent) {
    const ReplicaRecord& keeper = state.replicas.at(keepers.at(agent));
    const KeptCopy* copy = copy_of_stage(keeper, stage);
    return copy != nullptr && holds_committed(state, job, keeper, *copy);
  });
}

// Drops the copies of keepers that were not chosen and can be reached. A keeper that cannot be
// reached may return with state that no other has by then.
void drop_others(Transaction& tx, JobId job, StageIndex stage,
                 const std::vector<ReplicaId>& chosen) {
  for (const ReplicaId id : live_replicas(tx.state(), job)) {
    const ReplicaRecord& keeper = tx.state().replicas.at(id);
    const bool keeps = copy_of_stage(keeper, stage) != nullptr;
    if (!keeps || !can_be_told(tx.state(), keeper) || std::ranges::count(chosen, id) > 0) continue;
    std::erase_if(tx.replica(id).copies, [&](const KeptCopy& copy) { return copy.stage == stage; });
  }
}

void choose_keepers(Transaction& tx, JobId id) {
  const State& state = tx.state();
  const JobRecord& job = state.jobs.at(id);
  const FlatMap<AgentId, ReplicaId> keepers = possible_keepers(state, job);
  const BuddiesDecision decision = decide_buddies(buddies_input(tx, job, keepers));
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    if (in_sync_replicas(state, job, stage).empty()) continue;  // its copies are all that is left
    const auto& agents = decision.keepers.at(static_cast<std::size_t>(stage));
    std::vector<ReplicaId> chosen;
    for (const AgentId agent : agents) {
      chosen.push_back(keepers.at(agent));
      const ReplicaRecord& keeper = state.replicas.at(chosen.back());
      const bool full = keeper.copies.size() >= kCopiesMax;
      if (full || copy_of_stage(keeper, stage) != nullptr) continue;
      const ReplicaId copy(tx.counters().next_replica++);
      tx.replica(chosen.back()).copies.push_back({copy, stage});
    }
    const bool none = agents.empty();  // a keeper of a copy that cannot move keeps it
    if (!none && all_hold(state, job, stage, agents, keepers)) drop_others(tx, id, stage, chosen);
  }
}

// ---- their orders

std::vector<PeerAddress> sources_of_stage(const State& state, const JobRecord& job,
                                          StageIndex stage) {
  std::vector<PeerAddress> sources;
  for (const ReplicaId id : in_sync_replicas(state, job, stage)) {
    const ReplicaRecord& replica = state.replicas.at(id);
    const bool gives = replica.held_round == job.committed_round && !replica.address.empty() &&
                       is_within_reach(state, id);
    if (gives && sources.size() < kSourcesMax) sources.push_back({id, replica.address});
  }
  return sources;
}

// None: the state of the stage is about to be settled, and the copy has no order yet.
std::optional<StageCopy> order_of(const State& state, const JobRecord& job, const KeptCopy& copy,
                                  const HostedCopies& known) {
  const JobStage& stage = stage_of(job, copy.stage);
  StageCopy order{.copy = copy.id,
                  .stage = copy.stage,
                  .value_count = stage.value_count,
                  .key = committed_key(job),
                  .anchor = stage.anchor,
                  .momentum = stage.momentum,
                  .sources = sources_of_stage(state, job, copy.stage)};
  if (stage.anchor && !order.sources.empty()) return order;
  const auto before = std::ranges::find(known.told.copies, copy.id, &StageCopy::copy);
  if (before != known.told.copies.end() && before->key.epoch == job.epoch) return *before;
  if (stage.anchor) return order;
  return std::nullopt;
}

std::optional<KeepCopies> all_orders(const State& state, const JobRecord& job,
                                     const ReplicaRecord& keeper, const HostedCopies& known) {
  KeepCopies all;
  for (const KeptCopy& copy : keeper.copies) {
    auto order = order_of(state, job, copy, known);
    if (!order) return std::nullopt;
    all.copies.push_back(std::move(*order));
  }
  return all;
}

void tell_keepers(Transaction& tx, const JobRecord& job) {
  for (const ReplicaId id : live_replicas(tx.state(), job.id)) {
    const ReplicaRecord& keeper = tx.state().replicas.at(id);
    const HostedCopies* known = tx.state().copies.find(id);
    if (keeper.copies.empty() && known == nullptr) continue;
    if (keeper.held_round < 0 || !can_be_told(tx.state(), keeper)) continue;
    const HostedCopies before = known == nullptr ? HostedCopies() : *known;
    const auto orders = all_orders(tx.state(), job, keeper, before);
    if (!orders || *orders == before.told) continue;
    tx.tell(id, *orders);
    tx.volatile_state().copies[id].told = *orders;
  }
}

}  // namespace

void keep_copies(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (job.spec.checkpoint.buddies == 0 || stage_count(job) < 2) return;
  if (!is_going_on(job.phase) || job.committed_round == 0) return;
  if (anchors_known(job)) choose_keepers(tx, id);
  tell_keepers(tx, tx.state().jobs.at(id));
}

void on_copies_held(Transaction& tx, ReplicaId keeper, const CopiesHeld& held) {
  HostedCopies& known = tx.volatile_state().copies[keeper];
  known.held = held.copies;
  known.heard = true;
}

void tell_copies_again(Transaction& tx, ReplicaId keeper) {
  if (HostedCopies* known = tx.volatile_state().copies.find(keeper)) known->told = {};
}

std::vector<PeerAddress> copies_of_committed(const State& state, const JobRecord& job,
                                             StageIndex stage) {
  std::vector<PeerAddress> copies;
  for (const auto& [id, keeper] : state.replicas) {
    if (keeper.job != job.id || !can_be_told(state, keeper)) continue;
    const KeptCopy* copy = copy_of_stage(keeper, stage);
    if (copy == nullptr || !holds_committed(state, job, keeper, *copy)) continue;
    const std::int32_t* faults = state.copy_faults.find(copy->id);
    if (faults == nullptr || *faults < kFaultsMax) copies.push_back({copy->id, keeper.address});
  }
  if (copies.size() > kSourcesMax) copies.resize(kSourcesMax);
  return copies;
}

std::vector<ReplicaId> keepers_unheard(const State& state, const JobRecord& job, StageIndex stage) {
  std::vector<ReplicaId> unheard;
  for (const auto& [id, keeper] : state.replicas) {
    if (keeper.job != job.id || keeper.epoch != job.epoch) continue;
    const KeptCopy* copy = copy_of_stage(keeper, stage);
    if (copy == nullptr) continue;
    const HostedCopies* known = state.copies.find(id);
    const std::vector<StageCopy> told =
        known == nullptr ? std::vector<StageCopy>() : known->told.copies;
    const auto order = std::ranges::find(told, copy->id, &StageCopy::copy);
    const bool heard = known != nullptr && known->heard && order != told.end();
    // With an order for the committed round it may hold it, and its report may be on its way.
    const bool may_hold = !heard || order->key == committed_key(job);
    const bool here = can_be_told(state, keeper) && holds_committed(state, job, keeper, *copy);
    if (may_hold && !here) unheard.push_back(id);
  }
  return unheard;
}

bool keeps_what_is_needed(const State& state, const ReplicaRecord& keeper) {
  if (keeper.copies.empty()) return false;
  const JobRecord& job = state.jobs.at(keeper.job);
  return std::ranges::any_of(keeper.copies, [&](const KeptCopy& copy) {
    return in_sync_replicas(state, job, copy.stage).empty();
  });
}

const ReplicaRecord* keeper_of(const State& state, const JobRecord& job, ReplicaId copy) {
  for (const auto& [id, keeper] : state.replicas) {
    if (keeper.job != job.id) continue;
    if (std::ranges::count(keeper.copies, copy, &KeptCopy::id) > 0) return &keeper;
  }
  return nullptr;
}

void note_copy_fault(Transaction& tx, const ReplicaRecord& failed) {
  const State& state = tx.state();
  const bool from_peer = failed.source.kind == SourceKind::kPeer && failed.held_round < 0;
  const bool of_source = failed.failure == ReplicaFailure::kSourceLost ||
                         failed.failure == ReplicaFailure::kDigestMismatch;
  if (!from_peer || !of_source) return;
  if (keeper_of(state, state.jobs.at(failed.job), failed.source.replica) == nullptr) return;
  ++tx.volatile_state().copy_faults[failed.source.replica];
}

void note_restored(Transaction& tx, const ReplicaRecord& replica) {
  const State& state = tx.state();
  const JobRecord& job = state.jobs.at(replica.job);
  const ReplicaRecord* keeper = keeper_of(state, job, replica.source.replica);
  if (keeper == nullptr || replica.source.kind != SourceKind::kPeer) return;
  tx.volatile_state().copy_faults.erase(replica.source.replica);
  tx.event(
      Severity::kWarning, event_kind::kStageRestoredFromCopy,
      {.job = job.id, .agent = replica.agent, .replica = replica.id, .round = job.committed_round},
      "stage " + std::to_string(replica.stage) + " lost its last replica; " +
          display_name(state, replica.id) + " continues from the copy of round " +
          std::to_string(job.committed_round) + " that " + display_name(state, keeper->id) +
          " kept");
}

}  // namespace shoal::coordinator
