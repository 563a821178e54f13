// What is known of one agent's line, as plans, reduces and moves use it
// (coordinator/core/state/measured_lines.h).
#pragma once

#include <algorithm>

#include "base/time.h"

namespace shoal::coordinator {

// Bytes/s of a line that nobody has measured: 100 Mbit/s.
inline constexpr double kAssumedLine = 12.5e6;

// The best that was measured from it and to it, because each of its peers may have a slower line of
// its own. Bytes/s; 0: not known.
struct AgentLine {
  double up = 0, down = 0;
  bool at_least = false;                 // traffic has shown it, no probe
  Duration round_trip;                   // the mean of those to its peers; zero: not known
  bool reached = false, missed = false;  // by anybody
  // The slower direction; the one that is known.
  double bytes_per_s() const { return up > 0 && down > 0 ? std::min(up, down) : up + down; }
};

}  // namespace shoal::coordinator
