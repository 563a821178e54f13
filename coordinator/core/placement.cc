#include "coordinator/core/placement.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace shoal::coordinator {
namespace {

bool faster(const FreeDevice& a, const FreeDevice& b) {
  return std::tuple(-a.gflops, a.agent, a.device) < std::tuple(-b.gflops, b.agent, b.device);
}

PlacementReason why_nothing(const PlacementDecision& decision, const PlacementInput& input) {
  if (decision.wanted <= 0) return PlacementReason::kComplete;
  if (input.devices_known == 0) return PlacementReason::kNoAgents;
  const auto free = static_cast<std::int64_t>(input.free.size());
  if (free == 0 || decision.resting > 0) return PlacementReason::kNoFreeDevice;
  return decision.refused == free ? PlacementReason::kAllRefused : PlacementReason::kNoDeviceFits;
}

}  // namespace

PlacementDecision decide_placement(const PlacementInput& input) {
  PlacementDecision decision;
  decision.wanted = input.max_replicas == 0 ? std::numeric_limits<std::int64_t>::max()
                                            : input.max_replicas - input.live + input.leaving;
  std::vector<FreeDevice> usable;
  for (const auto& device : input.free) {
    decision.largest = std::max(decision.largest, device.memory);
    const bool fits = device.memory >= input.memory_needed;
    decision.fitting += fits;
    decision.refused += device.refused;
    decision.resting += fits && !device.refused && device.resting;
    if (fits && !device.refused && !device.resting) usable.push_back(device);
  }
  std::sort(usable.begin(), usable.end(), faster);
  for (const auto& device : usable) {
    if (static_cast<std::int64_t>(decision.places.size()) >= decision.wanted) break;
    decision.places.push_back({device.agent, device.device});
  }
  decision.reason =
      decision.places.empty() ? why_nothing(decision, input) : PlacementReason::kPlaced;
  return decision;
}

const char* to_string(PlacementReason reason) {
  switch (reason) {
    case PlacementReason::kPlaced:
      return "placed";
    case PlacementReason::kComplete:
      return "complete";
    case PlacementReason::kNoAgents:
      return "no_agents";
    case PlacementReason::kNoFreeDevice:
      return "no_free_device";
    case PlacementReason::kNoDeviceFits:
      return "no_device_fits";
    case PlacementReason::kAllRefused:
      return "all_refused";
  }
  return "unknown";
}

}  // namespace shoal::coordinator
