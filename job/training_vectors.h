// How many fp32 vectors as long as its parameters a replica holds, beside what its backward pass
// keeps: where, and in which phase. The table of docs/memory.md says the same in bytes, and
// `shoal-bench memory --check` holds both against what is measured. training_memory() and the cost
// model of swarm/core use training_vectors().
//
// Device: weights, gradients and two Adam moments; an inner step on a GPU has half a vector beside
// them. With ddp weights, gradients and their sum, beside which the mean is made at a boundary.
//
// Host, at rest: the anchor and the vectors of the outer optimizer (outer momentum: one); with ddp
// the anchor and two moments. sparse2 keeps what it
// did not send. sync.eager keeps the part of the others in each fragment's last average, and of one
// fragment where the steps under way began. With sync.outer_state = sharded each of n replicas
// keeps two of n parts of the outer momentum, for equal parts; n is at least swarm.min_replicas.
// While members change it keeps the old two beside the new ones; that is not counted.
//
// Host, while a round travels: the average as well, and the pseudo-gradient, unless it can be read
// from anchor and local parameters; between rounds their memory is the system's when it needs some
// (threads/idle_memory.h). A robust aggregator keeps the
// contributions to the part that this replica owns, which are one vector together when parts are
// equal. sync.eager computes its estimate in one more.
//
// Host, now and then: a checkpoint that is due has a copy of the inner moments, one more with
// sync.overlap_steps from a boundary to its commit, and of the outer state if a commit comes before
// it is written. The source of a joiner has a copy of the moments, if those travel, and the
// averages of the rounds since, as they were sent: at most as much as anchor and momentum.
#pragma once

#include <cstdint>

#include "job/job_spec.h"

namespace shoal {

struct ReplicaVectors {
  double device = 0, device_peak = 0;
  double host = 0, host_round = 0;
  double host_checkpoint = 0, host_source = 0;  // at most, in a round; 0 for no checkpoints
};
ReplicaVectors replica_vectors(const JobSpec& spec);

// What there has to be room for all the time, on a device whose memory is the host's, or on a GPU
// that takes the outer step: in a round, with the pseudo-gradient, which a GPU has in any case.
double training_vectors(const JobSpec& spec);

// What the replicas of a stage share, and copies of a stage have: the anchor and the vectors of the
// outer optimizer; with ddp the shared moments.
std::int64_t shared_vectors(const JobSpec& spec);
// What a replica takes over where moments travel: these, and the moments of the inner optimizer.
std::int64_t state_vectors(const JobSpec& spec);

}  // namespace shoal
