// See vector_statistics.h.
#include "outer_opt/core/step/vector_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kBlock = 1024;
constexpr std::uint32_t kExponent = 0x7f80'0000;  // all of its bits are set: not finite

// No branch within a block, and a fixed length, so that the loop is vectorized.
bool is_finite(std::span<const float, kBlock> block) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    found |= (std::bit_cast<std::uint32_t>(block[i]) & kExponent) == kExponent ? 1u : 0u;
  }
  return found == 0;
}

}  // namespace

VectorStatistics statistics_of(std::span<const float> values) {
  VectorStatistics statistics;
  double squares = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++statistics.nonfinite;
      continue;
    }
    const double v = value;
    squares += v * v;
    statistics.max_abs = std::max(statistics.max_abs, std::fabs(v));
  }
  statistics.norm = std::sqrt(squares);
  return statistics;
}

std::int64_t count_nonfinite(std::span<const float> values) {
  std::int64_t count = 0;
  while (!values.empty()) {
    const auto block = values.first(std::min(kBlock, values.size()));
    values = values.subspan(block.size());
    if (block.size() == kBlock && is_finite(block.first<kBlock>())) continue;
    count += std::ranges::count_if(block, [](float value) { return !std::isfinite(value); });
  }
  return count;
}

}  // namespace shoal::outer_opt
