#include "coordinator/core/state/movement.h"

#include <algorithm>
#include <variant>

#include "base/transfer_patience.h"
#include "job/training_vectors.h"

namespace shoal::coordinator {
namespace {

// Between two pieces of work of a compute thread.
bool tells_of_work(const FromAgent& message) {
  return std::holds_alternative<Progress>(message) ||
         std::holds_alternative<PipelineStats>(message);
}

// Nobody else can write its part.
bool waits_for_absent_writer(const State& state, const CheckpointRecord& checkpoint) {
  const JobRecord& job = state.jobs.at(checkpoint.key.job);
  for (std::size_t i = 0; i < checkpoint.parts.size(); ++i) {
    const CheckpointPart& part = checkpoint.parts[i];
    const bool absent = part.state < CheckpointState::kStored && !is_present(state, part.writer);
    if (absent && in_sync_replicas(state, job, static_cast<StageIndex>(i)).empty()) return true;
  }
  return false;
}

const Presence* connected(const State& state, ReplicaId replica) {
  const Presence* presence = state.presence.find(state.replicas.at(replica).agent);
  return presence != nullptr && presence->connected ? presence : nullptr;
}

void watch_load(Transaction& tx, const LoadProgress& load) {
  const ReplicaRecord& replica = tx.state().replicas.at(load.replica);
  if (replica.state != ReplicaState::kLoading || replica.source.kind != SourceKind::kPeer) return;
  const RoundNumber round = tx.state().jobs.at(replica.job).committed_round;
  tx.volatile_state().joiners[load.replica].watch.heard(
      {tx.now(), load.done, load.total, load.received, load.per_round, round});
}

}  // namespace

Bytes state_size(const JobRecord& job, StageIndex stage) {
  const auto index = static_cast<std::size_t>(stage);
  if (index >= job.stages.size()) return {};
  return Bytes(job.stages[index].value_count * state_vectors(job.spec) *
               static_cast<std::int64_t>(sizeof(float)));
}

void hear(Transaction& tx, ReplicaId replica, const FromAgent& message) {
  const State& state = tx.state();
  if (!is_live(state, replica)) return;
  if (const auto* load = std::get_if<LoadProgress>(&message)) {
    if (!load->tensors.empty()) return;  // nothing has moved yet
    watch_load(tx, *load);
    Movement& movement = tx.volatile_state().loads[replica];
    if (load->done == movement.done) return;
    movement = {load->done, load->total, tx.now()};
    return;
  }
  const Presence* presence = connected(state, replica);
  ComputeWatch& watch = tx.volatile_state().compute[replica];
  if (presence != nullptr && presence->connection.n != watch.line) {
    watch.line = presence->connection.n;
    watch.listen_from(tx.now());
  }
  watch.said(tx.now(), tells_of_work(message));
}

Instant load_deadline(const Transaction& tx, const ReplicaRecord& replica) {
  const Movement* movement = tx.state().loads.find(replica.id);
  // When it was assigned, or came back.
  const Instant begun = std::max(replica.updated_at, tx.state().booted_at);
  const Instant moved = movement == nullptr ? begun : std::max(begun, movement->at);
  const Bytes size = state_size(tx.state().jobs.at(replica.job), replica.stage);
  return tx.deadline(moved, stall_for(tx.options().load_limit, size));
}

bool load_has_moved(const State& state, ReplicaId replica) { return state.loads.contains(replica); }

void note_store(Transaction& tx, CheckpointId checkpoint, std::optional<Bytes> received) {
  if (!tx.state().checkpoints.contains(checkpoint)) return;
  Movement& movement = tx.volatile_state().stores[checkpoint];
  if (received == movement.done) return;  // told again
  movement.done = received.value_or(Bytes());
  movement.at = tx.now();
}

Instant store_deadline(Transaction& tx, const CheckpointRecord& checkpoint) {
  const State& state = tx.state();
  auto& stores = tx.volatile_state().stores;
  const bool waits = waits_for_absent_writer(state, checkpoint);
  if (waits || !stores.contains(checkpoint.id)) stores[checkpoint.id].at = tx.now();
  const JobRecord& job = state.jobs.at(checkpoint.key.job);
  Bytes largest;
  for (std::size_t i = 0; i < checkpoint.parts.size(); ++i) {
    largest = std::max(largest, state_size(job, static_cast<StageIndex>(i)));
  }
  Instant moved;
  for (const auto& [id, movement] : stores) moved = std::max(moved, movement.at);
  return tx.deadline(moved, stall_for(tx.options().checkpoint_limit, largest));
}

std::optional<Instant> silent_since(Transaction& tx, ReplicaId replica, Instant begun) {
  const Presence* presence = connected(tx.state(), replica);
  if (presence == nullptr) return std::nullopt;
  ComputeWatch& watch = tx.volatile_state().compute[replica];
  if (presence->connection.n != watch.line || !watch.last_word()) {
    watch.line = presence->connection.n;
    watch.listen_from(tx.now());
  }
  return std::max(begun, *watch.last_word());
}

Duration silence_limit(const State& state, ReplicaId replica) {
  const ComputeWatch* watch = state.compute.find(replica);
  return (watch == nullptr ? ComputeWatch() : *watch).limit(state.options);
}

Duration work_limit(const State& state, ReplicaId replica) {
  const ComputeWatch* watch = state.compute.find(replica);
  return watch == nullptr ? Duration() : watch->patience(state.options);
}

}  // namespace shoal::coordinator
