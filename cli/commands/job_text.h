// One job in words, with what its object does not say: who serves it, which stage depends on one
// agent, the agents it has lost, when it rolled back to a checkpoint. Pure, except ask_around().
#pragma once

#include <string>

#include "cli/api.h"

namespace shoal::cli {

// Lists of the API.
struct JobAround {
  Json replicas = Json::array();
  Json agents = Json::array();    // those that are gone, too
  Json warnings = Json::array();  // events about the job, the newest first
  Json series = Json::array();    // with their newest points
};
Result<JobAround> ask_around(const Api& api, const Json& job);

// A line per thing that is known.
std::string job_text(const Json& job, const JobAround& around, double now_unix_s, bool color);

// "3 serve, 1 is absent (agent-3)", or per stage. Empty: the job holds no device.
std::string replicas_text(const Json& job, const JobAround& around);

// Agents that were lost while they served the job and have not come back: "agent-3, 12 s ago".
std::string lost_text(const JobAround& around, double now_unix_s);

// "stage 1 depends on agent-2 alone", a sentence per stage of several. Empty: none does. `replicas`
// have the name of their agent.
std::string lone_stages(const Json& replicas);

}  // namespace shoal::cli
