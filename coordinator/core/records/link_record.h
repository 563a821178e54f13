// What was measured last of the line from one agent to another; the rules are in rounds/links.h.
#pragma once

#include "base/ids.h"
#include "base/time.h"

namespace shoal::coordinator {

// Whether `from` could dial `to`. A line is measured both ways by who dials.
enum class Dialled { kNever, kYes, kInVain };
const char* to_string(Dialled value);

struct LinkRecord {
  AgentId from, to;
  Duration round_trip;     // zero: not measured
  double bytes_per_s = 0;  // 0: not measured
  Dialled dialled = Dialled::kNever;
  Instant measured_at;
  bool operator==(const LinkRecord&) const = default;
};

}  // namespace shoal::coordinator
