// What is known of one agent's line, as plans, reduces and moves use it
// (coordinator/core/state/measured_lines.h).
#pragma once

#include <algorithm>

#include "base/time.h"

namespace shoal::coordinator {

// Bytes/s of a line that nobody has measured: 100 Mbit/s.
inline constexpr double kAssumedLine = 12.5e6;

// The best that was measured from it and to it, because each of its peers may have a slower line of
// its own. So may the coordinator. Bytes/s; 0: not known.
struct AgentLine {
  double up = 0, down = 0;
  bool at_least = false;                 // a lower bound: traffic has shown it, or a short probe
  Duration round_trip;                   // the mean of those to its peers; zero: not known
  bool reached = false, missed = false;  // by anybody
  bool to_coordinator = false;           // no peer has measured it: its host's, to the coordinator
  Instant measured_at;                   // the newest measurement that the rates come from
  // The slower direction; the one that is known.
  double bytes_per_s() const { return up > 0 && down > 0 ? std::min(up, down) : up + down; }
};

// A rate that a plan can go by, not a lower bound alone.
inline bool is_measured(const AgentLine& line) { return line.bytes_per_s() > 0 && !line.at_least; }
inline bool is_measured_by_peers(const AgentLine& line) {
  return is_measured(line) && !line.to_coordinator;
}

}  // namespace shoal::coordinator
