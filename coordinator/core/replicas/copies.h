// Copies of a job's stages in the memory of hosts that serve other stages (checkpoint.buddies). A
// stage whose last replica is gone restarts from a copy of the committed round, so its loss
// costs only the open round.
//
//   placed    by decisions/buddies.h, while the stage has replicas. A copy belongs to the replica
//             that keeps it and ends with it; another keeper is chosen then. One that is to keep it
//             no longer does so until those in its place hold the committed round.
//   follows   each commit, once all replicas of the stage have agreed on what they hold. Until it
//             has come to that round, the stage is only as safe as its replicas.
//   asked     as any source (joining.h), by an id of its own, at the address of its keeper
//
// On record is who keeps what (ReplicaRecord::copies): a coordinator that has just started must
// wait for keepers that it has not heard. What they hold is not: they say it again.
#pragma once

#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Chooses keepers and tells them what to keep.
void keep_copies(Transaction& tx, JobId job);
void on_copies_held(Transaction& tx, ReplicaId keeper, const CopiesHeld& held);
// A new stream: what was told over the last one may not have arrived.
void tell_copies_again(Transaction& tx, ReplicaId keeper);

// Copies of the committed state of this stage that can be asked now.
std::vector<PeerAddress> copies_of_committed(const State& state, const JobRecord& job,
                                             StageIndex stage);
// Keepers that may hold it, too: they are out of reach, or have not said what they hold.
std::vector<ReplicaId> keepers_unheard(const State& state, const JobRecord& job, StageIndex stage);
// Whether no replica serves a stage of which this one keeps a copy.
bool keeps_what_is_needed(const State& state, const ReplicaRecord& keeper);

// The replica that keeps this copy; null: it is none, or is gone.
const ReplicaRecord* keeper_of(const State& state, const JobRecord& job, ReplicaId copy);
// It could not load from a copy. After a few in a row that one is not offered any more.
void note_copy_fault(Transaction& tx, const ReplicaRecord& failed);
// `stage` is served again, by a replica that has its state from this copy.
void note_restored(Transaction& tx, const ReplicaRecord& replica);

}  // namespace shoal::coordinator
