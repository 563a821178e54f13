#include "trainer/plain/useful_threads.h"

#include <algorithm>

namespace shoal::trainer {

int useful_threads(const JobSpec& job, int limit) {
  const JobSpec spec = with_derived_fields(job);
  const auto rows = static_cast<double>(spec.train.microbatch * spec.model.context);
  const auto weights = static_cast<double>(spec.model.hidden * spec.model.ffn);
  const double operations = 2 * rows * weights;
  return static_cast<int>(std::clamp(operations / kOperationsPerThread, 1.0, limit * 1.0));
}

}  // namespace shoal::trainer
