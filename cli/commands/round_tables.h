// The rounds of a job, and one of them with its contributions, as tables for people. Pure functions
// of the API's objects.
#pragma once

#include <map>
#include <string>

#include "cli/api.h"

namespace shoal::cli {

// One line per round. GROUPS is there when a round averages within groups.
std::string rounds_table(const Json& rounds, bool colour);

// Who contributed what; of a round in groups who was with whom, and which group gave up.
// `agents`: names by id.
std::string round_text(const Json& round, const std::map<std::string, std::string>& agents,
                       bool colour);

// Of the round's average, shortened. "DIFFERENT" when members that averaged together, a stage or a
// group of it, hold different ones; "-" when nobody has one.
std::string digest_cell(const Json& round);

}  // namespace shoal::cli
