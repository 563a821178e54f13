// The rounds of a job, and one of them with its contributions, as tables for people. Pure functions
// of the API's objects.
#pragma once

#include <string>

#include "cli/api.h"
#include "cli/commands/round_waiting.h"

namespace shoal::cli {

// One line per round. GROUPS is there when a round averages within groups.
std::string rounds_table(const Json& rounds, bool color);

// What the round waits for or waited for, and what each member contributed; for a round in groups
// also the members of each group and which group gave up.
std::string round_text(const Json& round, const RoundContext& context, bool color);

// The digest of the round's average, shortened. "DIFFERENT" when members of one stage or group hold
// different averages; "-" when no member has one.
std::string digest_cell(const Json& round);

}  // namespace shoal::cli
