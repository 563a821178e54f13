// See vector_statistics.h.
#include "outer_opt/core/step/vector_statistics.h"

#include <algorithm>
#include <cmath>

namespace shoal::outer_opt {

VectorStatistics statistics_of(std::span<const float> values) {
  VectorStatistics statistics;
  double squares = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++statistics.nonfinite;
      continue;
    }
    const double v = value;
    squares += v * v;
    statistics.max_abs = std::max(statistics.max_abs, std::fabs(v));
  }
  statistics.norm = std::sqrt(squares);
  return statistics;
}

}  // namespace shoal::outer_opt
