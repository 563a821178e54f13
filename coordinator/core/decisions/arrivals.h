// What a round of an asynchronous job (sync.algorithm = async) counts for. Its replicas take
// unequal numbers of inner steps, so the job advances by their mean: with N replicas, by one inner
// step for every N inner steps that are committed. The remainder is carried to the next round. So
// train.steps means what it means elsewhere, and a job ends after about as many tokens as a
// synchronous one with the same replicas.
//
// Pure.
#pragma once

#include <cstdint>

#include "job/job_spec.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::coordinator {

struct Arrivals {
  std::int64_t replicas = 0;       // that take the outer step
  std::int64_t contributions = 0;  // of those, in the average
  std::int64_t steps = 0;          // inner steps in these
};

struct Arrived {
  double share = 1;                // contributions / replicas
  Steps to_step;                   // of the job
  std::int64_t carried_steps = 0;  // below `replicas`
};

Arrived count_arrivals(Steps from_step, std::int64_t carried_steps, const Arrivals& arrivals);

// What the round from..to does with outer momentum (outer_opt/core/step/nesterov.h): one renewal
// per sync.every steps of the job, which is one per N contributions.
outer_opt::DelayedTerms terms_of(const JobSpec& spec, double share, Steps from_step, Steps to_step);

}  // namespace shoal::coordinator
