// What was measured last of the line from one agent to another; the rules are in rounds/links.h.
#pragma once

#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"
#include "outer_opt/core/round/round_parts.h"

namespace shoal::coordinator {

using shoal::to_string;

struct LinkRecord {
  AgentId from, to;
  Duration round_trip;              // zero: not measured
  double bytes_per_s = 0;           // 0: not measured
  PeerWay way = PeerWay::kUnknown;  // in which `from` reaches `to`, as `from` says
  Instant measured_at;              // rate and round trip
  Instant reached_at;               // the way was tried last
  bool at_least = false;            // traffic has shown the rate, no probe
  bool operator==(const LinkRecord&) const = default;
};
constexpr auto fields_of(Of<LinkRecord>) {
  using T = LinkRecord;
  return fields(field<&T::from>("from_agent"), field<&T::to>("to_agent"), field<&T::round_trip>(),
                field<&T::bytes_per_s>(), field<&T::way>(), field<&T::measured_at>(),
                field<&T::reached_at>(), field<&T::at_least>());
}

}  // namespace shoal::coordinator
