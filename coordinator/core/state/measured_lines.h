// The one reader of link records and host lines that plans, reduces and moves go by.
#pragma once

#include <vector>

#include "coordinator/core/decisions/plan_cluster.h"
#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

// A measurement that is older counts for nothing.
inline constexpr Duration kLinkFresh = seconds(1800);

// What the coordinator measured of a host's line counts for so long, where no peer has measured it
// within kLinkFresh: it is better than an assumption, and a job that is cut for the first time has
// it measured again anyway (replicas/line_probes.h).
inline constexpr Duration kHostLineKnown = seconds(86'400);
// Without a round trip it is a guess: the agent, not its line, may have been slow.
inline constexpr Duration kSilentLineKnown = seconds(600);

// By the agents whose lines anything is known of.
FlatMap<AgentId, AgentLine> lines_of(const State& state, Instant now);

// The same for traffic between these agents: what the coordinator alone has measured of a host has
// no rates where several of them are on it, because they reach each other beside that line.
FlatMap<AgentId, AgentLine> lines_between(const State& state, Instant now,
                                          const std::vector<AgentId>& agents);

// By the sites that agents name (label `site`): the best that was measured between one of its
// agents and one elsewhere.
SiteLines site_lines(const State& state, Instant now);

std::string site_of(const AgentRecord& agent);  // empty: none is named

}  // namespace shoal::coordinator
