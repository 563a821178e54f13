// How many fp32 vectors as long as its parameters a replica holds, beside what its backward pass
// keeps. training_memory() and the cost model of swarm/core reckon with the same number.
#pragma once

#include "job/job_spec.h"

namespace shoal {

// Weights, gradients, two Adam moments, anchor, outer momentum, pseudo-gradient, average. sparse2
// keeps what it did not send; a robust aggregator keeps the contributions to the part that this
// replica owns, which are one vector together when parts are equal. sync.eager keeps the part of
// the others in each fragment's last average, and of one fragment where the steps under way began.
//
// With sync.outer_state = sharded each of n replicas keeps two of n parts of the outer momentum,
// for equal parts; n is at least swarm.min_replicas. While members change it keeps the old two
// beside the new ones; that is not counted.
double training_vectors(const JobSpec& spec);

}  // namespace shoal
