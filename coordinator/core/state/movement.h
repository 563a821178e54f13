// What moves, and who still says something: kept as it is heard, for the rules that have limits.
// All of it is volatile. After a start of the coordinator nothing has been heard yet, and every
// limit begins then.
#pragma once

#include <optional>

#include "coordinator/core/state/state.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// What a replica of this stage holds: parameters, outer momentum and two moments, in float32.
Bytes state_size(const JobRecord& job, StageIndex stage);

// A message of this replica came; its agent is connected.
void hear(Transaction& tx, ReplicaId replica, const FromAgent& message);

// When a load has stood still for too long.
Instant load_deadline(const Transaction& tx, const ReplicaRecord& replica);
// Whether any of it has come: a load that is slow, or broke, is no fault of its replica.
bool load_has_moved(const State& state, ReplicaId replica);

// A part was announced, asked of another writer, or came further: `received` bytes of it.
void note_store(Transaction& tx, CheckpointId checkpoint,
                std::optional<Bytes> received = std::nullopt);
// When the storing of this checkpoint has stood still for too long. While others come further it
// may wait for its turn: agents upload one after the other, and end by themselves what does not
// move. While a writer is absent it waits for that.
Instant store_deadline(Transaction& tx, const CheckpointRecord& checkpoint);

// Since when the compute thread of a replica is silent, at the earliest since `begun`; none: its
// agent is out of reach, so nobody can tell.
std::optional<Instant> silent_since(Transaction& tx, ReplicaId replica, Instant begun);
// How long it may be.
Duration silence_limit(const State& state, ReplicaId replica);
// How long its pieces of work may take, as far as is known: it hears an order after one of them.
Duration work_limit(const State& state, ReplicaId replica);

}  // namespace shoal::coordinator
