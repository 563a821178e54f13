// See statistics.h.
#include "bench/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace shoal::bench {
namespace {

// The 97.5 % point of Student's t, by degrees of freedom from 1; beyond the table that of the next
// smaller entry, which is on the safe side.
constexpr std::array kStudent = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};

}  // namespace

Interval interval_of(std::span<const double> values) {
  SHOAL_CHECK(!values.empty());
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  if (values.size() == 1) return {mean, std::numeric_limits<double>::infinity()};
  const double student = kStudent[std::min(values.size() - 1, kStudent.size()) - 1];
  return {mean, student * std::sqrt(squares / (count - 1) / count)};
}

Interval excess_of(std::span<const double> own, std::span<const double> other) {
  std::vector<double> excess;
  for (std::size_t i = 0; i < std::min(own.size(), other.size()); ++i) {
    excess.push_back(100 * (own[i] / other[i] - 1));
  }
  return interval_of(excess);
}

Verdict verdict_of(const Interval& excess, double limit) {
  if (!(excess.mean <= limit)) return Verdict::kMissed;
  return excess.high() <= limit ? Verdict::kMet : Verdict::kUndecided;
}

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMet:
      return "met";
    case Verdict::kUndecided:
      return "met by the mean, not by the interval";
    case Verdict::kMissed:
      return "missed";
  }
  return "";
}

}  // namespace shoal::bench
