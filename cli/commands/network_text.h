// The measured lines between agents as a table, by name. A line from an agent to itself is left
// out: two trainers of one host do not use the network. Pure.
#pragma once

#include <map>
#include <string>

#include "cli/api.h"

namespace shoal::cli {

// `names`: of agents, by id; an unknown id stands for itself. Empty when there is no line.
std::string network_text(const Json& links, const std::map<std::string, std::string>& names,
                         bool color);

}  // namespace shoal::cli
