// Why the cut of a job stays although another one would be better (replicas/recutting.h): the
// checkpoint that could not be loaded on another cut, and what was known then.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace shoal::coordinator {

struct RecutRefusal {
  CheckpointId checkpoint;
  Instant at;
  std::vector<std::pair<std::pair<AgentId, std::int32_t>, double>> devices;  // and their GFLOP/s
};

}  // namespace shoal::coordinator
