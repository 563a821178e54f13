// How long one microbatch takes a replica of a pipeline, forward and backward, as it reports: a
// moving average of its own.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace shoal::coordinator {

struct SeenService {
  Duration now, best;  // the newest, and the shortest; zero: not yet

  void heard(Duration service) {
    if (service <= Duration{}) return;
    now = service;
    best = best == Duration{} ? service : std::min(best, service);
  }
};

}  // namespace shoal::coordinator
