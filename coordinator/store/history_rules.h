// How long a store keeps history; history.h takes away what is older.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "coordinator/meters/meters.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {

// Age is measured from the newest event, so that a host whose clock is wrong deletes nothing that
// is recent by the cluster's events.
struct HistoryRules {
  Duration keep;  // events, ended replicas, and rounds and series of ended jobs; 0: forever
  Duration full;  // every round and point; then one round in ten; 0: forever
};

// Store::open(), which keeps everything but what is left of removed jobs, with rules. Writes are
// counted in `meters`.
Result<std::unique_ptr<Store>> open_store(
    const std::string& folder, HistoryRules rules,
    std::shared_ptr<Meters> meters = std::make_shared<Meters>());

}  // namespace shoal::coordinator
