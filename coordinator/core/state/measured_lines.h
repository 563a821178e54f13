// The one reader of link records that plans, reduces and moves go by.
#pragma once

#include "coordinator/core/decisions/agent_line.h"
#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

// A measurement that is older counts for nothing.
inline constexpr Duration kLinkFresh = seconds(1800);

// By the agents that the fresh records name.
FlatMap<AgentId, AgentLine> lines_of(const State& state, Instant now);

}  // namespace shoal::coordinator
