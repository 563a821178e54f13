// The newest instant in the records of a snapshot. A coordinator's clock never starts before it, in
// case the host's clock was set back.
#pragma once

#include <algorithm>

#include "coordinator/core/records/records.h"

namespace shoal::coordinator {

inline Instant newest_instant(const Snapshot& snapshot) {
  Instant newest;
  const auto look = [&](const auto& records) {
    for (const auto& record : records) newest = std::max(newest, record.updated_at);
  };
  look(snapshot.jobs);
  look(snapshot.agents);
  look(snapshot.replicas);
  look(snapshot.checkpoints);
  return newest;
}

}  // namespace shoal::coordinator
