// Reducers: replicas without a state, on devices that compute nothing (DeviceKind::kReducer). A job
// with sync.topology = "param_server" gets one per stage on every such device that is there; they
// own parts in its reduces and have no say in its votes. Its training never waits for them: without
// one the attempt is a butterfly.
#pragma once

#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Replicas that one reducing device takes, of all jobs: a process each, as many as an agent starts.
inline constexpr std::int64_t kReplicasPerReducer = 8;

// Assigns the reducers that a job lacks, and releases those whose agent leaves once no attempt
// depends on them.
void place_reducers(Transaction& tx, JobId job);

// The reducers of one stage that can be asked.
std::vector<ReplicaId> serving_reducers(const State& state, JobId job, StageIndex stage);

}  // namespace shoal::coordinator
