#include "coordinator/core/state/measured_lines.h"

#include <algorithm>

namespace shoal::coordinator {

FlatMap<AgentId, AgentLine> lines_of(const State& state, Instant now) {
  FlatMap<AgentId, AgentLine> lines;
  for (const auto& [key, link] : state.links) {
    if (now - link.measured_at > kLinkFresh) continue;
    AgentLine& from = lines[link.from];
    from.up = std::max(from.up, link.bytes_per_s);
    AgentLine& to = lines[link.to];
    to.down = std::max(to.down, link.bytes_per_s);
    to.reached |= link.way != PeerWay::kUnknown && link.way != PeerWay::kUnreachable;
    to.missed |= link.way == PeerWay::kUnreachable;
  }
  return lines;
}

}  // namespace shoal::coordinator
