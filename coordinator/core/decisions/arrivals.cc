// See arrivals.h. Whole numbers, so that N contributions of sync.every steps are sync.every steps
// of the job, whatever N is.
#include "coordinator/core/decisions/arrivals.h"

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

outer_opt::DelayedTerms terms_of(const JobSpec& spec, double share, Steps from_step,
                                 Steps to_step) {
  SHOAL_CHECK(to_step >= from_step && spec.sync.every > Steps(0));
  const auto renewals = static_cast<double>((to_step - from_step).count()) /
                        static_cast<double>(spec.sync.every.count());
  return outer_opt::delayed_terms(share, spec.sync.outer.momentum, renewals);
}

}  // namespace shoal::coordinator
