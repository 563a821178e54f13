// The rules between the options.
#include "tests/sim/swarm/options.h"

#include <algorithm>

namespace shoal::sim::swarm {

std::string why_not(const Options& o) {
  if (o.stages < 1 || o.stages > 255) return "--stages must be from 1 to 255";
  if (o.agents < o.stages || o.agents > 100'000) return "--agents must be from stages to 100000";
  if (o.microbatches < 1) return "--microbatches must be at least 1";
  if (o.microbatches * o.stages > 1 << 28) return "--microbatches: too many for one step";
  if (o.speeds.empty()) return "--speeds must name one speed at least";
  for (const double speed : o.speeds) {
    if (!(speed > 0)) return "--speeds must be above 0";
  }
  if (o.forward.ns <= 0 || o.backward.ns <= 0) return "--forward and --backward must be above 0";
  if (o.one_way.empty()) return "no latency given";
  for (const auto& row : o.one_way) {
    if (row.size() != o.one_way.size()) return "the latency matrix must be square";
  }
  if (o.agents_per_uplink < 1) return "--agents-per-uplink must be at least 1";
  if (o.back_after < o.detection) return "an agent cannot be back before its loss is known";
  for (const MembershipEvent& row : o.trace) {
    if (row.agent < 0 || row.agent >= o.agents) return "the trace names an agent out of range";
  }
  if (o.steps < 1 || o.window < 1) return "--steps and --window must be at least 1";
  return {};
}

}  // namespace shoal::sim::swarm
