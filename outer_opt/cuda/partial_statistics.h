// The statistics of a vector as a device measures them: in parts, which the host puts together in
// order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "outer_opt/core/codec/formats.h"
#include "outer_opt/core/step/vector_statistics.h"

namespace shoal::outer_opt {

namespace cuda {

inline constexpr unsigned kStatisticsParts = 1024;

struct PartialStatistics {
  double squares;
  std::uint32_t largest;  // bits of the largest finite magnitude
  std::uint32_t nonfinite;
};

inline VectorStatistics statistics_of(std::span<const PartialStatistics> parts) {
  VectorStatistics statistics;
  double squares = 0;
  for (const PartialStatistics& part : parts) {
    squares += part.squares;
    statistics.max_abs = std::max(statistics.max_abs, static_cast<double>(float_of(part.largest)));
    statistics.nonfinite += part.nonfinite;
  }
  statistics.norm = std::sqrt(squares);
  return statistics;
}

}  // namespace cuda
}  // namespace shoal::outer_opt
