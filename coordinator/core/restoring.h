// A database that is older than its cluster: a backup was put back, and agents return with replicas
// that hold rounds which it does not know. The job stands still until whoever may hold the newest
// one has had time to return, and continues from the newest round that they agree on, ledger
// included; where they do not agree it goes back to its newest checkpoint. Both are said in an
// event.
//
// What was adopted is in a new epoch, so that nothing of the history that was lost can be mistaken
// for the one that follows; ids that were given out in it are not given out again.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// A new Hello says all that its agent holds: what an earlier one said is of the past.
void begin_claims(Transaction& tx, AgentId agent);
// It does not hold it any more.
void withdraw_claim(Transaction& tx, AgentId agent, ReplicaId replica);
// What the state that a replica returns with means to this database.
enum class ClaimVerdict {
  kNothingNew,  // the database knows as much: it goes by its own records
  kAccepted,    // it is newer and proved: the replica is kept, and the job waits for the decision
  kRefused,     // it is newer and not proved: an event has said why, the replica is released
};
// Without a valid signature for this agent (state/commit_proof.h) nothing changes.
ClaimVerdict claim_newer_state(Transaction& tx, AgentId agent, const HeldReplica& held);

// What such a replica says before the decision is of a round that nobody knows here.
bool is_claimed(const State& state, AgentId agent, ReplicaId replica);

// True while the job stands still for the decision; makes it when it is due.
bool is_restoring(Transaction& tx, JobId id);

// At start: where the database says of itself that it is a backup, or is older than the checkpoints
// that were found on disk, all live jobs stand still until each has its decision, ids that were
// given out since are left out, and epochs continue where no other history has counted.
void begin_restoring(Transaction& tx, const std::vector<CheckpointRecord>& found);

// Its job ends before the decision.
void forget_claims(Transaction& tx, JobId id, ReleaseReason reason);

}  // namespace shoal::coordinator
