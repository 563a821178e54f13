// Membership traces: who left and came back when, one row per line, "seconds,add|remove,agent".
// Agents are numbered from 0 and begin as present; the times do not go back.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "tests/sim/swarm/options.h"

namespace shoal::sim::swarm {

// Empty lines and lines that begin with '#' are skipped. An error names the line by its number.
Result<std::vector<MembershipEvent>> parse_trace(std::string_view text);

}  // namespace shoal::sim::swarm
