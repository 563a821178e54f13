// Which free devices shall hold the next replicas of a job? A pure decision: it proposes, the
// caller assigns. With one stage every device that fits is wanted, up to swarm.max_replicas; agents
// that could not load this job are left out.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace shoal::coordinator {

struct FreeDevice {
  AgentId agent;
  std::int32_t device = 0;
  Bytes memory;
  double gflops = 0;
  bool refused = false;  // this agent failed to load this job for a reason that will not go away
  bool resting = false;  // backing off after a failure
};

struct PlacementInput {
  Bytes memory_needed;
  std::int64_t live = 0;     // replicas that are there or on their way
  std::int64_t leaving = 0;  // of those, on agents that are drained: others may take their place
  std::int64_t min_replicas = 1;
  std::int64_t max_replicas = 0;   // 0: no limit
  std::int64_t devices_known = 0;  // free or not, of all agents
  std::vector<FreeDevice> free;
};

enum class PlacementReason {
  kPlaced,
  kComplete,      // nothing more is wanted
  kNoAgents,      // no devices at all
  kNoFreeDevice,  // all are taken or resting
  kNoDeviceFits,  // free ones are too small
  kAllRefused,    // free ones cannot load this job
};

struct Place {
  AgentId agent;
  std::int32_t device = 0;
  bool operator==(const Place&) const = default;
};

struct PlacementDecision {
  PlacementReason reason = PlacementReason::kComplete;
  std::vector<Place> places;  // fastest first
  std::int64_t wanted = 0, fitting = 0, refused = 0, resting = 0;
  Bytes largest;  // memory of the largest free device
};

PlacementDecision decide_placement(const PlacementInput& input);

const char* to_string(PlacementReason reason);

}  // namespace shoal::coordinator
