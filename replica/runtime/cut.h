// A model as its units: the embedding, the blocks, and the last norm with the head.
#pragma once

#include <vector>

#include "job/job_spec.h"

namespace shoal::replica {

inline UnitRange whole_model(const ModelSpec& model) {
  return {0, static_cast<std::int32_t>(model.layers) + 2};
}

// Ranges without gaps from the first unit to the last one.
inline bool is_cut(const std::vector<UnitRange>& cut, UnitRange whole) {
  std::int32_t next = whole.first;
  for (const UnitRange& range : cut) {
    if (range.first != next || range.last <= range.first) return false;
    next = range.last;
  }
  return next == whole.last;
}

}  // namespace shoal::replica
