// The queue of host lines that the coordinator measures (replicas/line_probes.h).
#pragma once

#include <optional>
#include <vector>

#include "base/flat_map.h"
#include "base/ids.h"
#include "base/time.h"

namespace shoal::coordinator {

struct LineQueue {
  FlatMap<AgentId, Instant> running;  // since then
  std::vector<AgentId> urgent;        // jobs wait for these
  std::vector<AgentId> idle;          // connected lately; no job waits for them
  FlatMap<AgentId, Instant> again;    // join `idle` then, because they did not answer in time
  Instant idle_after;                 // no measurement of `idle` begins before
  std::optional<Instant> idle_due;    // the next one of the two begins; none: others run
};

}  // namespace shoal::coordinator
