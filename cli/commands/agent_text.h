// The state of an agent in words, of an object of /agents.
#pragma once

#include <string>

#include "cli/api.h"

namespace shoal::cli {

// It is being drained and has no replica any more.
bool is_drained(const Json& agent);

// "active", "active, cordoned", "draining", "drained", "gone: lost".
std::string state_of(const Json& agent);

// "green", "yellow: rep_4 on device 0 computes at 0.21 of what was promised: …".
std::string health_of(const Json& agent);

// A line for each agent that is there and not well: "agent-2 is yellow: its heartbeat is late".
std::string unwell_text(const Json& agents);

// One of `cordoned_devices`: since when the device gets no work, why, and what ends it.
std::string cordon_text(const Json& agent, const Json& cordon);

// "; 35 % busy, 2.00 GB in use here and 1.00 GB by others, 54 °C": what the driver of the device
// said last, and when, unless it is of now. Empty: nothing.
std::string sample_text(const Json& agent, const Json& device);

// "63 % busy, at most 81 °C, throttled 4 % of the time, XID 79 (2)": what the device did in the
// time of `history`, the items of /agents/{agent}/devices/history. Empty: nothing is known.
std::string day_text(const Json& agent, const Json& device, const Json& history);

// RFC 3339; of one that is gone, when it went.
std::string last_seen(const Json& agent);

// Which programs of jobs it runs: "of --trainer-root, code of ada"; empty: none, or it is not said.
std::string programs_of(const Json& agent);

// What a command has done: "Agent agent-1 is back at work, now active."
std::string after_command(const Json& agent, const std::string& verb);

// "2 gone: agent-3, lost 12 s ago; … `shoal agent ls --gone` shows all"; empty: nobody is gone
// whose name is not here again. `agents` with those that are gone.
std::string gone_text(const Json& agents, double now_unix_s);

}  // namespace shoal::cli
