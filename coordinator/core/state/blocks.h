// What devices took for a block of a model, as their agents' records keep it: pure rules over a
// record. A measurement belongs to a card, a shape and a version of the agent's software. Who is
// asked, and when, is in replicas/profiling.h; what a plan makes of it in
// decisions/block_speeds.h.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

// What measurements of the job's model are found by; zero: a program's model is not known.
Digest shape_of(const JobSpec& spec);

// None: the device has not measured this shape.
std::optional<BlockTimes> block_of(const AgentRecord& agent, const Device& device,
                                   const Digest& shape);

// In place of an earlier one of the same device and shape, else of the device's oldest.
void keep_block(AgentRecord& agent, const Device& device, const Digest& shape,
                const BlockTimes& times, Instant now);

// After the devices of the agent were described anew, by a hello or a measurement: forgets blocks
// of cards that are gone, and of those whose matrix product is another one than `before` by more
// than a quarter, because they compute at another speed now.
void forget_stale_blocks(AgentRecord& agent, const std::vector<Device>& before);

// FLOP/s by the block of the job's model; none unless all devices of the job's live replicas have
// measured it, because these speeds compare with no others, and for a job of one stage.
std::optional<double> block_speed_of(const State& state, const ReplicaRecord& replica);

}  // namespace shoal::coordinator
