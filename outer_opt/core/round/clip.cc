#include "outer_opt/core/round/clip.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"

namespace shoal::outer_opt {
namespace {

struct Middle {  // of some members, in logarithms
  double work = 0, norm = 0;
};

Middle middle_of(std::vector<double> work, std::vector<double> norms) {
  return {median(std::move(work)), median(std::move(norms))};
}

double logarithm_of_work(double work) { return work > 0 ? std::log(work) : 0; }

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return median_of_sorted(values);
}

double median_of_sorted(std::span<const double> values) {
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<double> telling_norms(std::span<const double> norms) {
  std::vector<double> telling;
  std::ranges::copy_if(norms, std::back_inserter(telling), [](double norm) { return norm > 0; });
  return telling;
}

std::vector<double> clip_factors(const std::vector<double>& norms) {
  std::vector<double> factors(norms.size(), 1.0);
  std::vector<double> telling = telling_norms(norms);
  if (telling.empty()) return factors;
  const double typical = median(std::move(telling));
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (norms[i] > typical) factors[i] = typical / norms[i];
  }
  return factors;
}

double growth_of_norms(std::span<const double> norms, std::span<const double> work) {
  SHOAL_CHECK(norms.size() == work.size());
  if (norms.empty()) return kGrowthMin;
  std::vector<double> logs;
  for (const double of_one : work) logs.push_back(logarithm_of_work(of_one));
  const auto [least, most] = std::minmax_element(logs.begin(), logs.end());
  const double divide = (*least + *most) / 2;
  std::vector<double> little, little_norms, much, much_norms;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (!(norms[i] > 0)) continue;
    (logs[i] <= divide ? little : much).push_back(logs[i]);
    (logs[i] <= divide ? little_norms : much_norms).push_back(std::log(norms[i]));
  }
  if (little.empty() || much.empty()) return kGrowthMin;
  const Middle low = middle_of(std::move(little), std::move(little_norms));
  const Middle high = middle_of(std::move(much), std::move(much_norms));
  return std::clamp((high.norm - low.norm) / (high.work - low.work), kGrowthMin, kGrowthMax);
}

std::vector<double> norms_at_equal_work(std::span<const double> norms,
                                        std::span<const double> work) {
  const double growth = growth_of_norms(norms, work);
  std::vector<double> comparable(norms.begin(), norms.end());
  for (std::size_t i = 0; i < norms.size(); ++i) {
    comparable[i] /= std::exp(growth * logarithm_of_work(work[i]));
  }
  return comparable;
}

}  // namespace shoal::outer_opt
