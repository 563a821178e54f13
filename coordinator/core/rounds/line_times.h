// What the lines of hosts do to the replicas of a pipeline. A replica computes while its line
// carries, so that a microbatch takes it the longer of the two. A host's line is divided evenly
// among its replicas of the job.
#pragma once

#include <vector>

#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

// By replica: what the slower direction of its line takes for the activations and gradients of one
// microbatch of its stage. Zero: the line is not measured, or to the coordinator alone while other
// agents of its host have replicas, too; or the job is a program, whose tensors are not known
// before it runs.
std::vector<Duration> line_times(const State& state, Instant now, const JobRecord& job,
                                 const std::vector<ReplicaId>& replicas);

}  // namespace shoal::coordinator
