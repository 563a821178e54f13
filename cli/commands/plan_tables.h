// The plan and the topology of a job as tables for people. Pure functions of the API's objects.
#pragma once

#include <string>

#include "cli/api.h"

namespace shoal::cli {

// Stages, then what is expected of them; why not, when it cannot be placed.
std::string plan_text(const Json& plan, bool color);

// Replicas by stage, then the links between them.
std::string topology_text(const Json& topology, bool color);

}  // namespace shoal::cli
