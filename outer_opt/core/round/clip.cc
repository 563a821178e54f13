#include "outer_opt/core/round/clip.h"

#include <algorithm>

namespace shoal::outer_opt {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return median_of_sorted(values);
}

double median_of_sorted(std::span<const double> values) {
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<double> clip_factors(const std::vector<double>& norms) {
  std::vector<double> factors(norms.size(), 1.0);
  if (norms.empty()) return factors;
  const double typical = median(norms);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (typical > 0 && norms[i] > typical) factors[i] = typical / norms[i];
  }
  return factors;
}

}  // namespace shoal::outer_opt
