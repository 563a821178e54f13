// Replicas: one assignment of a job's stage to one device. They are created by placement, load
// their state, serve, and end; nothing ever brings an ended one back.
#pragma once

#include <optional>
#include <string>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/turn.h"

namespace shoal::coordinator {

// Where a new replica of this stage gets the committed state from: a peer that holds it, the seed
// while nothing was committed, a stored checkpoint of exactly that round. None: nobody can give it
// now.
std::optional<StateSource> choose_source(const State& state, const JobRecord& job,
                                         StageIndex stage);

void assign_replica(Turn& turn, JobId job, const Place& place, const StateSource& source);
void on_loaded(Turn& turn, const Loaded& loaded);
void fail_replica(Turn& turn, ReplicaId id, ReplicaFailure failure, const std::string& detail);
void release_replica(Turn& turn, ReplicaId id, ReleaseReason reason);

// Sends again whatever this replica may have missed while its agent was away.
void catch_up(Turn& turn, ReplicaId id);

// A replica that does not load in time is given up.
void check_load_limits(Turn& turn, JobId job);

// The deadline of a job: the earliest instant asked for in this step.
void look_again(Turn& turn, JobId job, Instant at);

}  // namespace shoal::coordinator
