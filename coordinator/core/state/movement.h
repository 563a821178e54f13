// Progress of loads and uploads, and when each replica was last heard, for the rules with time
// limits. All of it is volatile. After a start of the coordinator nothing has been heard yet, and
// every limit begins then.
#pragma once

#include <optional>

#include "coordinator/core/state/state.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// What a replica of this stage holds: state_vectors() of job/training_vectors.h in float32.
Bytes state_size(const JobRecord& job, StageIndex stage);

// A message of this replica came; its agent is connected.
void hear(Transaction& tx, ReplicaId replica, const FromAgent& message);

// The time at which a load will have stood still for too long.
Instant load_deadline(const Transaction& tx, const ReplicaRecord& replica);
// Whether any bytes have arrived. If so, a slow or interrupted load is not the replica's fault.
bool load_has_moved(const State& state, ReplicaId replica);

// A part was announced, was asked of another writer, or progressed to `received` bytes.
void note_store(Transaction& tx, CheckpointId checkpoint,
                std::optional<Bytes> received = std::nullopt);
// The time at which the storing of this checkpoint will have stood still for too long. It may wait
// for its turn while other uploads progress: agents upload one checkpoint after the other, and end
// by themselves an upload that does not move. It also waits for an absent writer.
Instant store_deadline(Transaction& tx, const CheckpointRecord& checkpoint);

// The time since which the compute thread of a replica has been silent, but not before `begun`.
// None: its agent is unreachable, so that is unknown.
std::optional<Instant> silent_since(Transaction& tx, ReplicaId replica, Instant begun);
// How long that thread may be silent.
Duration silence_limit(const State& state, ReplicaId replica);
// How long its pieces of work may take, as far as is known: it hears an order after one of them.
Duration work_limit(const State& state, ReplicaId replica);

}  // namespace shoal::coordinator
