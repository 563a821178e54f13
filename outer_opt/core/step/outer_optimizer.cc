// See outer_optimizer.h. The rules that are loops of a few lines are headers, and this file is
// their translation unit.
#include "outer_opt/core/step/outer_optimizer.h"

#include "outer_opt/core/step/heavy_ball.h"
#include "outer_opt/core/step/nesterov.h"
#include "outer_opt/core/step/outer_adam.h"

namespace shoal::outer_opt {

static_assert([] {
  for (const OuterTraits& traits : kOuterTraits) {
    if (traits.vectors.size() > kStateVectorsMax) return false;
  }
  return true;
}());

std::unique_ptr<OuterOptimizer> make_outer_optimizer(const OuterSpec& spec,
                                                     std::int64_t fragments) {
  SHOAL_CHECK(fragments >= 1);
  switch (spec.method) {
    case OuterMethod::kNesterov:
      return std::make_unique<Nesterov>(spec);
    case OuterMethod::kSgd:
      return std::make_unique<HeavyBall>(spec);
    case OuterMethod::kAdam:
      return std::make_unique<OuterAdam>(spec, fragments);
  }
  SHOAL_CHECK(false, "the spec has an unknown outer method");
  return nullptr;
}

}  // namespace shoal::outer_opt
