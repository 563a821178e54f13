// How many fp32 vectors as long as its parameters a replica holds, beside what its backward pass
// keeps. training_memory() and the cost model of swarm/core reckon with the same number.
#pragma once

#include <cstdint>

#include "base/job_spec.h"

namespace shoal {

// Weights, gradients, two Adam moments, anchor, outer momentum, pseudo-gradient, average. sparse2
// keeps what it did not send; a robust aggregator keeps the contributions to the part that this
// replica owns, which are one vector together when parts are equal.
std::int64_t training_vectors(const SyncSpec& sync);

}  // namespace shoal
