// Which moves of the machines were seen: those of the coordinator's cores (job, agent, replica,
// round) and of the agents' (daemon, link, trainer, replica) as they count them, and those of
// checkpoints as their records show them. And how the reduces of each topology ended at a member.
// And why contributions were rejected, which events told of trouble, and after which moments faults
// struck.
// And which of all these a long campaign has to see.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/store.h"

namespace shoal::sim {

using TransitionCounts = std::map<std::string, std::int64_t>;  // "job training stalled" -> 3

// Counts the move of a checkpoint from its record in `before` to `record`, the first one from
// "new".
void count_checkpoint_move(const Record& record, const Tables& before, TransitionCounts& counts);

// Counts a contribution that got a reason not to count: "contribution excluded".
void count_rejection(const Record& record, const Tables& before, TransitionCounts& counts);

// Counts an event that is more than information, what becomes of replicas that are slow or in the
// wrong stage, and other cuts: "event momentum_lost", "event replica_moved", "event
// pipeline_recut".
void count_event(const Record& record, TransitionCounts& counts);

// A campaign of 200 seeds and more has seen all of these.
const std::vector<std::string>& expected_transitions();

}  // namespace shoal::sim
