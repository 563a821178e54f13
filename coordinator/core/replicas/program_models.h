// The models of Python programs, which no spec describes: what each replica's is made of, as it
// says before it loads a byte, and whether that is what the other replicas of its stage train.
//
// Nothing of it is kept over a start of the coordinator. A replica whose list was not heard is
// judged by the size and the digests of its values alone, when it has loaded.
#pragma once

#include <string>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Fails a replica whose parameters are not those of its stage, and names them. With a checkpoint as
// its source, the program has compared them with that by itself.
void on_model_told(Transaction& tx, const LoadProgress& told);

// ": the program …", of a replica that holds other values than its stage, as many or not: what
// differs as far as it is known, and the remedy.
std::string why_other_values(const State& state, const ReplicaRecord& replica,
                             std::int64_t value_count);

}  // namespace shoal::coordinator
