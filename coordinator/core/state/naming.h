// What events call replicas: with the agent that people know and can look for.
#pragma once

#include <string>
#include <vector>

#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

// "rep_14 of agent-2"; of one that has ended "rep_14".
std::string display_name(const State& state, ReplicaId replica);

// "rep_14 of agent-2, rep_15 of agent-3"; of many the first eight and how many more.
std::string display_name(const State& state, const std::vector<ReplicaId>& replicas);

// "agent-2, agent-3"; of many the first eight and how many more.
std::string first_of(const std::vector<std::string>& names);

}  // namespace shoal::coordinator
