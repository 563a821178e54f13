// How often a sender may send again. Losses come in bursts (a replica dies with all that it held),
// and a storm of repeated work must not follow: a token bucket, shared by the runtime and the
// simulator.
#pragma once

namespace shoal::swarm {

// `per_microbatch` for every microbatch admitted, `per_s` by time so that a step whose every
// microbatch is lost still goes on, at most `burst`.
struct RetryBudget {
  double per_microbatch = 0.1;
  double per_s = 1;
  double burst = 256;
};

}  // namespace shoal::swarm
