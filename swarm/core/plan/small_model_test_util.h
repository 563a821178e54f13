// For the tests of the planner: a model that any agent can hold.
#pragma once

#include "job/job_spec.h"

namespace shoal::swarm {

inline constexpr Bytes kPlenty{std::int64_t{1} << 60};

inline JobSpec spec_of(std::int64_t layers) {
  JobSpec spec;
  spec.model = {.layers = layers, .hidden = 64, .heads = 4, .context = 32, .vocab = 256};
  spec.train.batch = 4, spec.train.microbatch = 1;
  return spec;
}

}  // namespace shoal::swarm
