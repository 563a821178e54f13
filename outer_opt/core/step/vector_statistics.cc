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

void RunningStatistics::add(std::span<const float> run) {
  double squares = squares_, max_abs = max_abs_;
  for (const float value : run) {
    if (!std::isfinite(value)) {
      ++nonfinite_;
      continue;
    }
    const double v = value;
    squares += v * v;
    max_abs = std::max(max_abs, std::fabs(v));
  }
  squares_ = squares, max_abs_ = max_abs;
}

VectorStatistics RunningStatistics::value() const {
  return {std::sqrt(squares_), max_abs_, nonfinite_};
}

VectorStatistics statistics_of(std::span<const float> values) {
  RunningStatistics all;
  all.add(values);
  return all.value();
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
