// From the commit on: the durable decision, what it counts for, the next round's orders, and the
// outer step on every replica until its digests are known.
#pragma once

#include <vector>

#include "base/digest.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// One average per reduce; zero where a group gave up.
void commit(Transaction& tx, const RoundKey& key, const std::vector<Digest>& averages);
// What one follower of a committed round is told.
// `record` is of its round, and signed for the replica.
CommitRound commit_for(const State& state, Instant now, CommitRecord record, ReplicaId replica);

void on_applied(Transaction& tx, ReplicaId replica, const Applied& applied);
// Settles the anchors of the committed round when all followers have said theirs: of a stage the
// majority's, a replica that differs has failed. Then a checkpoint, when one is due.
void check_applied(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
