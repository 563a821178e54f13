// What a report says of a pseudo-gradient: its norm, its largest magnitude, and how many values are
// not finite. A device measures it in parts, which the host puts together in order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "outer_opt/core/codec/formats.h"

namespace shoal::outer_opt {

struct VectorFacts {  // norm and max_abs: over the finite values
  double norm = 0, max_abs = 0;
  std::int64_t nonfinite = 0;
};

namespace cuda {

inline constexpr unsigned kFactsParts = 1024;

struct PartialFacts {
  double squares;
  std::uint32_t largest;  // bits of the largest finite magnitude
  std::uint32_t nonfinite;
};

inline VectorFacts facts_of(std::span<const PartialFacts> parts) {
  VectorFacts facts;
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
