// Attempts of a round's reduces: the plan, votes and failures, and what follows from them. The
// verdicts are those of decisions/attempt.h. A frozen round ends here: in a commit when every
// reduce agrees or has given up, else in an abort, which reopens it with its progress kept.
#pragma once

#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Starts the next attempt of one reduce with these members, and reducers where there are some.
void start_attempt(Transaction& tx, const RoundKey& key, ReduceIndex reduce,
                   const std::vector<ReplicaId>& members);

void on_vote(Transaction& tx, ReplicaId replica, const Vote& vote);
void on_reduce_failed(Transaction& tx, ReplicaId replica, const ReduceFailed& failed);

// Looks at the attempts of a round that is reducing or voting.
void judge(Transaction& tx, const RoundKey& key);
// Its members train on from where they are; the job fails when one round is aborted too often.
void abort_round(Transaction& tx, const RoundKey& key, AbortReason reason);

// Whether one of these members has a pseudo-gradient that counts.
bool any_usable(const State& state, const RoundKey& key, const std::vector<ReplicaId>& members);

}  // namespace shoal::coordinator
