// Which values of a stage's vector a fragment has, one by one: what is packed stands in this order.
#pragma once

#include <vector>

#include "outer_opt/core/step/fragments.h"

namespace shoal::sim {

inline std::vector<std::size_t> values_in(const outer_opt::Fragment& fragment) {
  std::vector<std::size_t> values;
  for (const outer_opt::ValueRange& range : fragment) {
    for (std::int64_t i = 0; i < range.count; ++i) {
      values.push_back(static_cast<std::size_t>(range.first + i));
    }
  }
  return values;
}

}  // namespace shoal::sim
