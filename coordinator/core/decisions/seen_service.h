// How long one microbatch takes a replica of a pipeline, forward and backward, as it reports: a
// moving average of its own. Replicas that share a device are in each other's way: with every one
// more, a replica's best is what it would be if all of them worked all the time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace shoal::coordinator {

struct SeenService {
  Duration now, best;  // the newest, and the shortest; zero: not yet

  std::int32_t sharing = 1;  // replicas on its device, itself included

  void heard(Duration service, std::int32_t on_device = 1) {
    if (service <= Duration{}) return;
    if (on_device > sharing) best = best * on_device / sharing;
    sharing = on_device;
    now = service;
    best = best == Duration{} ? service : std::min(best, service);
  }
};

}  // namespace shoal::coordinator
