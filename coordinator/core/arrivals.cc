// See arrivals.h. Whole numbers, so that N contributions of sync.every steps are sync.every steps
// of the job, whatever N is.
#include "coordinator/core/arrivals.h"

#include "base/check.h"

namespace shoal::coordinator {

Arrived count_arrivals(Steps from_step, std::int64_t carried_steps, const Arrivals& arrivals) {
  SHOAL_CHECK(arrivals.replicas > 0 && arrivals.contributions <= arrivals.replicas);
  const std::int64_t steps = carried_steps + arrivals.steps;
  Arrived arrived;
  arrived.share =
      static_cast<double>(arrivals.contributions) / static_cast<double>(arrivals.replicas);
  arrived.to_step = from_step + Steps(steps / arrivals.replicas);
  arrived.carried_steps = steps % arrivals.replicas;
  return arrived;
}

bool renews_momentum(const JobSpec& spec, Steps from_step, Steps to_step) {
  const std::int64_t every = spec.sync.every.count();
  return to_step.count() / every > from_step.count() / every || to_step >= spec.train.steps;
}

}  // namespace shoal::coordinator
