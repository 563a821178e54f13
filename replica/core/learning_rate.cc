// See learning_rate.h.
#include "replica/core/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace shoal::replica {

double learning_rate(const TrainSpec& spec, Steps step) {
  const auto s = static_cast<double>(step.count());
  const auto warmup = static_cast<double>(spec.warmup.count());
  if (s < warmup) return spec.lr * (s + 1) / warmup;
  if (spec.schedule == Schedule::kConstant) return spec.lr;
  const double length = std::max(1.0, static_cast<double>(spec.steps.count()) - warmup);
  const double progress = std::min(1.0, (s - warmup) / length);
  return spec.min_lr + 0.5 * (spec.lr - spec.min_lr) * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace shoal::replica
