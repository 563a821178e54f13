// How many inner steps each replica takes in a round of sync.balance = speed: in proportion to its
// speed, so that all finish at about the same time and no replica waits for the slowest (the
// dynamic local updates of Liu et al. 2024, Asynchronous Local-SGD, section 5). Weights stay
// tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace shoal::coordinator {

struct ReplicaSpeed {
  double steps_per_s = 0;  // of the last round; 0: it did not take part
  double device = 0;       // measured FLOP/s; 0: not known
};

// floor(speed / fastest * every), at least 1; the fastest takes `every`. A replica without a last
// round is judged by its device, beside those that have both; with nothing to judge by it counts as
// the mean of the others, and all are equal when nothing is known of anybody.
std::vector<Steps> balanced_steps(Steps every, const std::vector<ReplicaSpeed>& replicas);

}  // namespace shoal::coordinator
