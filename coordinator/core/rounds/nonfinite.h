// Contributions with values that are not finite (NaN, infinity). They are the matter of the job,
// never of the agent: its program, its data or its learning rate made them. Such a contribution has
// weight 0. Its replica returns to the anchor and clears the moments of its inner optimizer, so it
// counts again in the next round. The sequences that it trained on are not leased again, because
// one of them may have done the damage and would do it to the next replica.
//
// A replica that is rejected for it in kRoundsMax rounds in a row is replaced: something outlives
// the return to the anchor. A job none of whose replicas is finite in kTriesMax tries of one round
// fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

inline constexpr std::int32_t kNonFiniteRoundsMax = 5, kNonFiniteTriesMax = 3;

// The members of a frozen round are weighed. An event names a replica that is rejected for the
// first time in a row.
void note_nonfinite(Transaction& tx, const RoundKey& key, const std::vector<ReplicaId>& members);

// Before a report counts: whether its replica was rejected too often, and fails for it.
bool fails_as_nonfinite(Transaction& tx, ReplicaId replica, const RoundReport& report);

bool is_finite(const RoundReport& report);

// The round was aborted once more because no contribution of a stage was of use. Why the job fails
// for it; empty: it does not.
std::string why_never_finite(const State& state, const RoundKey& key);

}  // namespace shoal::coordinator
