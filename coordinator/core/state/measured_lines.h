// The one reader of link records that plans, reduces and moves go by.
#pragma once

#include "coordinator/core/decisions/plan_cluster.h"
#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

// A measurement that is older counts for nothing.
inline constexpr Duration kLinkFresh = seconds(1800);

// By the agents that the fresh records name.
FlatMap<AgentId, AgentLine> lines_of(const State& state, Instant now);

// By the sites that agents name (label `site`): the best that was measured between one of its
// agents and one elsewhere.
SiteLines site_lines(const State& state, Instant now);

std::string site_of(const AgentRecord& agent);  // empty: none is named

}  // namespace shoal::coordinator
