// One line for people that names the replicas a round waits for, or waited for: the first question
// about a late round. Pure functions of the API's objects; the dashboard answers the same in
// web/src/status.ts.
#pragma once

#include <optional>
#include <string>

#include "cli/api.h"

namespace shoal::cli {

// What the API lists beside a round: arrays, empty where nobody asked.
struct RoundContext {
  Json agents = Json::array(), replicas = Json::array();
};

std::string agent_name(const RoundContext& context, const std::string& id);  // the id when unknown

// Why a replica failed, a word of the API; empty when it did not, or nobody knows it.
std::string failure_of(const RoundContext& context, const std::string& replica);

// Inner steps of this round that a member which still trains has said it took.
std::optional<double> steps_now(const Json& round, const Json& contribution,
                                const RoundContext& context);

// "waits for agent-2 (step 18 of 400)\n", "agent-3 reported last, 417 ms after agent-1\n"; empty
// where there is nobody to name.
std::string waiting_line(const Json& round, const RoundContext& context);

}  // namespace shoal::cli
