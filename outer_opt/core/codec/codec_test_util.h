// Values for tests of what goes over a payload run by run.
#pragma once

#include <vector>

#include "base/prng.h"
#include "outer_opt/core/codec/codec_pieces.h"

namespace shoal::outer_opt {

// More than two runs, and a rest that is no whole block.
inline constexpr std::size_t kExampleValues = 2 * kRunValues + 700;

// Normal ones, always the same.
inline std::vector<float> example_values() {
  Prng prng(5);
  std::vector<float> values(kExampleValues);
  for (float& v : values) v = static_cast<float>(prng.normal());
  return values;
}

}  // namespace shoal::outer_opt
