// The progress of a replica that loads its state, in words, from an entry of /jobs/{job}/replicas.
#pragma once

#include <string>

#include "cli/api.h"

namespace shoal::cli {

// "12 MiB of 53 MiB, 40 s left, r = 0.14": r is the share of its line that the averages of the
// rounds take. Empty: it does not load, or has not begun to.
std::string load_text(const Json& replica);

// "rep_4 of agent-3 loads: …", a line each.
std::string loading_lines(const Json& replicas, const Json& agents);

}  // namespace shoal::cli
