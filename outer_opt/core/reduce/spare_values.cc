// See spare_values.h.
#include "outer_opt/core/reduce/spare_values.h"

#include <utility>

namespace shoal::outer_opt {

// The block that was used last: the caches may still hold it.
SpareValues::Block SpareValues::take(std::size_t size) {
  if (std::exchange(size_, size) != size) blocks_.clear();
  if (blocks_.empty()) return std::make_unique_for_overwrite<float[]>(size);
  Block block = std::move(blocks_.back());
  blocks_.pop_back();
  return block;
}

void SpareValues::visit(const std::function<void(std::span<float> block)>& use) {
  for (const Block& block : blocks_) use({block.get(), size_});
}

}  // namespace shoal::outer_opt
