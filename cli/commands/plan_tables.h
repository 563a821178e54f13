// The plan and the topology of a job as tables for people. Pure functions of the API's objects.
#pragma once

#include <string>

#include "cli/api.h"

namespace shoal::cli {

// The stages, then the expected speed and traffic; or the reason why the job cannot be placed.
std::string plan_text(const Json& plan, bool color, double now_unix_s);

// Why a running job is placed as it is: what limits it, what is assumed, who is left out, the
// newest look at its stages and the move that was considered last. Empty: nothing is known yet.
std::string placement_text(const Json& placement, double now_unix_s);

// Replicas by stage, then the links between them.
std::string topology_text(const Json& topology, bool color);

}  // namespace shoal::cli
