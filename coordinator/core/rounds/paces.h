// How fast the replicas of one stage are beside each other: by the time that a microbatch was seen
// to take each of them, or takes their lines where that is longer. A device was measured once,
// when its trainer started or before the model was cut; since then it may have been throttled, or
// is shared with programs of its host.
#pragma once

#include <vector>

#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

// By replica, in an arbitrary unit. A replica that has not reported a microbatch yet counts by its
// device, in the mean proportion of those that have. 0: nothing is known of it.
std::vector<double> paces_of(const State& state, Instant now, const JobRecord& job,
                             const std::vector<ReplicaId>& of_one_stage);

}  // namespace shoal::coordinator
