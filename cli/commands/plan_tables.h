// The plan and the topology of a job as tables for people. Pure functions of the API's objects.
#pragma once

#include <string>

#include "cli/api.h"

namespace shoal::cli {

// The stages, then the expected speed and traffic; or the reason why the job cannot be placed.
std::string plan_text(const Json& plan, bool color);

// Replicas by stage, then the links between them.
std::string topology_text(const Json& topology, bool color);

}  // namespace shoal::cli
