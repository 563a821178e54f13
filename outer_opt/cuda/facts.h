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

inline constexpr unsigned kFactsParts = 1024;

struct PartialFacts {
  double squares;
  std::uint32_t largest;  // bits of the largest finite magnitude
  std::uint32_t nonfinite;
};

inline VectorStatistics statistics_of(std::span<const PartialFacts> parts) {
  VectorStatistics facts;
  double squares = 0;
  for (const PartialFacts& part : parts) {
    squares += part.squares;
    facts.max_abs = std::max(facts.max_abs, static_cast<double>(float_of(part.largest)));
    facts.nonfinite += part.nonfinite;
  }
  facts.norm = std::sqrt(squares);
  return facts;
}

}  // namespace cuda
}  // namespace shoal::outer_opt
