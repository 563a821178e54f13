// What a report says of a contribution: its norm, its largest magnitude, and how many values are
// not finite.
#pragma once

#include <cstdint>
#include <span>

namespace shoal::outer_opt {

struct VectorStatistics {  // norm and max_abs: over the finite values
  double norm = 0, max_abs = 0;
  std::int64_t nonfinite = 0;
};

// Summed in double, in order.
VectorStatistics statistics_of(std::span<const float> values);

// The same of values that come one run after the other.
class RunningStatistics {
 public:
  void add(std::span<const float> run);
  VectorStatistics value() const;

 private:
  double squares_ = 0, max_abs_ = 0;
  std::int64_t nonfinite_ = 0;
};

// VectorStatistics::nonfinite alone, as fast as memory is read.
std::int64_t count_nonfinite(std::span<const float> values);

}  // namespace shoal::outer_opt
