// See tuning.h.
#include "bench/tuning.h"

#include <map>

namespace shoal::bench {
namespace {

constexpr double kRangeOfRates = 64;

double best_along(double lr, double factor, double first,
                  const std::function<double(double)>& loss_at) {
  double best = loss_at(lr);
  while (true) {
    const double next = lr * factor;
    if (next > first * kRangeOfRates || next < first / kRangeOfRates) return lr;
    const double loss = loss_at(next);
    if (!(loss < best)) return lr;
    best = loss;
    lr = next;
  }
}

}  // namespace

double tune(double first, const std::function<double(double)>& loss_at) {
  std::map<double, double> tried;
  const auto once = [&](double lr) {
    const auto known = tried.find(lr);
    if (known != tried.end()) return known->second;
    return tried[lr] = loss_at(lr);
  };
  const double up = best_along(first, 2, first, once);
  return up > first ? up : best_along(first, 0.5, first, once);
}

}  // namespace shoal::bench
