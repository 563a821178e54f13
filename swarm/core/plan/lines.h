// The lines of a plan: what they let through of the microbatches that devices could compute. A line
// belongs to a host, or to a site of hosts with one uplink; all devices behind it share it, and
// what passes between two of them stays off it. A microbatch crosses every boundary between stages
// twice: its activations forward, their gradients back. Pure; throughput.h uses the result.
#pragma once

#include <cstdint>
#include <vector>

#include "swarm/core/plan/assignment.h"

namespace shoal::swarm {

struct SharedLine {
  std::vector<std::int32_t> agents;  // those behind it: indices into the agents given, ascending
  double bytes_per_s = 0;            // in each direction; 0: it does not bind
};

// The lines of a plan, by agent: made once, because plans are compared by the thousand.
class LineMap {
 public:
  LineMap(std::size_t agents, const std::vector<SharedLine>& lines);

  const std::vector<SharedLine>& lines() const { return lines_; }
  // Indices of the lines that the agent is behind and that bind.
  const std::vector<std::int32_t>& of(std::int32_t agent) const { return of_[agent]; }
  // The slowest of them, bytes/s; 0: none binds.
  double slowest(std::int32_t agent) const { return slowest_[agent]; }

 private:
  std::vector<SharedLine> lines_;
  std::vector<std::vector<std::int32_t>> of_;
  std::vector<double> slowest_;
};

struct LineFlow {
  double tokens_per_s = 0;      // through every stage
  std::vector<double> rates;    // by placement: what its device does of that, tokens/s
  std::int32_t full_line = -1;  // the one that binds; -1: devices do
};

// The flow through a pipeline whose placements can compute `rates` (tokens/s). The replicas of a
// stage take microbatches in the proportion of what each can do, computing or receiving: those
// behind a full line take fewer, and the others more as far as they can.
LineFlow flow_through(StageIndex stages, const std::vector<Placement>& placements,
                      const std::vector<double>& rates, const LineMap& lines,
                      double boundary_bytes);

}  // namespace shoal::swarm
