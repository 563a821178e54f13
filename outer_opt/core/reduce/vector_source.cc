// See vector_source.h.
#include "outer_opt/core/reduce/vector_source.h"

#include <algorithm>

namespace shoal::outer_opt {

void VectorSource::read(std::int64_t first, std::span<float> out) const {
  if (read_) return read_(first, out);
  std::ranges::copy(values_.subspan(static_cast<std::size_t>(first), out.size()), out.begin());
}

std::span<const float> VectorSource::run(std::int64_t first, std::span<float> scratch) const {
  if (!read_) return values_.subspan(static_cast<std::size_t>(first), scratch.size());
  read_(first, scratch);
  return scratch;
}

std::vector<float> VectorSource::copy() const {
  std::vector<float> values(count_);
  read(0, values);
  return values;
}

}  // namespace shoal::outer_opt
