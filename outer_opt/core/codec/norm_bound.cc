#include "outer_opt/core/codec/norm_bound.h"

#include <cmath>

#include "outer_opt/core/codec/codec_traits.h"

namespace shoal::outer_opt {
namespace {

constexpr double kSummation = 1 + 1e-6;

}  // namespace

double squares_at_most(CodecKind codec, double norm, std::int64_t values) {
  const CodecTraits& traits = traits_of(codec);
  const double tiny = traits.tiny_error * std::sqrt(static_cast<double>(values));
  const double most = (traits.norm_growth * norm + tiny) * kSummation;
  return most * most;
}

}  // namespace shoal::outer_opt
