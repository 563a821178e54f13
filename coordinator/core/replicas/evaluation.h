// The evaluation of a committed round: its held-out batches in slices, one per router that follows.
// What an owner that is gone has not evaluated falls to the first router that holds the round.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Gives slices to the routers among `followers`; the other stages compute for them.
void share_evaluation(Transaction& tx, const RoundKey& key, std::vector<ReplicaId> followers);

// What this contribution still has to evaluate; no slices: nothing.
EvalSlice slice_of(const State& state, const RoundKey& key, const ContributionRecord& contribution);

// Sends every open slice whose owner is gone to the replica that evaluates it now.
void pass_on_slices(Transaction& tx, const RoundKey& key);
// Sends `replica` the open slices that are its to evaluate.
void resend_slices(Transaction& tx, const RoundKey& key, ReplicaId replica);
// `replica` has come to hold the committed round: sends it the open slices of owners that are gone,
// if it is the one to evaluate them. Until somebody holds the round, nobody can.
void take_over_slices(Transaction& tx, ReplicaId replica);

void on_evaluated(Transaction& tx, ReplicaId replica, const Evaluated& evaluated);

bool evaluation_complete(const RoundRecord& round, const State& state);

// When this replica, which evaluates, has said nothing for too long; none: its agent is out of
// reach. The stages of a pipeline evaluate together, and who of them hangs is not known: they have
// a limit for the whole.
std::optional<Instant> evaluation_deadline(Transaction& tx, const RoundRecord& round,
                                           ReplicaId replica);

}  // namespace shoal::coordinator
