#include "outer_opt/core/codec/norm_bound.h"

#include <cmath>

#include "outer_opt/core/codec/codec.h"

namespace shoal::outer_opt {
namespace {

constexpr double kSummation = 1 + 1e-6;

// The relative growth of the norm.
double growth_of(CodecKind kind) {
  switch (kind) {
    case CodecKind::kFp32:
    case CodecKind::kSparse2:
      return 1;
    case CodecKind::kFp16:
    case CodecKind::kBf16:
      return 1 + codec(kind).error_bound();
    case CodecKind::kInt8:
      return 1 + codec(kind).error_bound() * std::sqrt(static_cast<double>(kInt8Block));
    case CodecKind::kInt4:
      return std::sqrt(2.21);
    case CodecKind::kE3m0:
      return std::sqrt(1.80);
  }
  return 1;
}

}  // namespace

double squares_at_most(CodecKind codec, double norm, std::int64_t values) {
  const double subnormal =
      codec == CodecKind::kFp16 ? 0x1p-25 * std::sqrt(static_cast<double>(values)) : 0;
  const double most = (growth_of(codec) * norm + subnormal) * kSummation;
  return most * most;
}

}  // namespace shoal::outer_opt
