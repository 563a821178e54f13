// What people and scripts say to shoal-line, as JSON: a file that describes the hosts, then orders,
// a line of text each, that change their lines or ask for the counts.
//
//   {"seed": 1, "mtu": 1500, "offload": true, "memory_mib": 512,
//    "hosts": [{"name": "a", "namespace": "shoal-a", "device": "line", "address": "10.79.0.1/24",
//               "up": {"mbit": 20, "delay_ms": 50, "loss": 0.001}, "down": {"mbit": 100}}]}
//   {"host": "a", "up": {"mbit": 5}, "down": {"cut": true}}        what is not named stays
//   {"counts": true}
//
// A line has mbit (0: no limit), queue_ms, burst_ms, delay_ms, jitter_ms, loss, reorder (shares
// from 0 to 1), detour_ms and cut; line.h says what they do. What is wrong is refused (kValidation,
// kInvalidArgument) with the name of the field, and nothing of that order is done.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/line/forwarder.h"

namespace shoal::bench {

Result<LineSetup> parse_setup(std::string_view text);

struct LineOrder {
  int host = -1;  // whose lines are new; -1: it asks for the counts
  HostLines lines;
};
// `setup` has the lines as they are.
Result<LineOrder> parse_order(std::string_view text, const LineSetup& setup);

// One line each.
std::string counts_text(const LineSetup& setup, const ForwarderCounts& counts);
std::string error_text(const Error& error);

}  // namespace shoal::bench
