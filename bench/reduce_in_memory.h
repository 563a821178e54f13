// One attempt of a reduce with all its members in memory: the real sessions and codecs, frames
// handed over one by one instead of over sockets.
#pragma once

#include <cstdint>
#include <vector>

#include "outer_opt/core/reduce/reduce_session.h"

namespace shoal::bench {

struct Reduced {
  std::vector<float> average;
  double bytes_sent = 0;       // frames with their headers, of one member on average
  std::vector<PartSeen> seen;  // by member
};

// `inputs` by member. All members must end with the same digest: that is checked, not assumed.
Reduced reduce_in_memory(const ReducePlan& plan, const std::vector<outer_opt::ReduceInput>& inputs);

}  // namespace shoal::bench
