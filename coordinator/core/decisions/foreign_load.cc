#include "coordinator/core/decisions/foreign_load.h"

#include <algorithm>
#include <cmath>

namespace shoal::coordinator {
namespace {

constexpr Duration kFollows = seconds(60);  // time constant of the exponential average
constexpr double kCounts = 0.1;             // smaller shares are those of any host at rest
constexpr double kLeastSpeed = 0.05;

double smoothed(const ForeignLoad& load, Instant now) {
  const double spans = std::max(now - load.at, Duration()).seconds() / kFollows.seconds();
  return load.told + (load.share - load.told) * std::exp(-spans);
}

// What a hypervisor takes is not the agent's either.
double told_share(const DeviceSample& sample) {
  const bool answers =
      sample.answer == DeviceAnswer::kWhole || sample.answer == DeviceAnswer::kPartial;
  if (!answers || !sample.use) return 0;
  return std::clamp(sample.use->busy_elsewhere + sample.use->stolen, 0.0, 1.0);
}

}  // namespace

ForeignLoad after_sample(const ForeignLoad* before, const DeviceSample& sample, Instant now) {
  const double told = told_share(sample);
  return {told, before == nullptr ? told : smoothed(*before, now), now};
}

double foreign_share(const ForeignLoad* load, Instant now) {
  if (load == nullptr) return 0;
  const double share = smoothed(*load, now);
  return share < kCounts ? 0 : share;
}

double speed_left(double foreign_share) { return std::max(kLeastSpeed, 1 - foreign_share); }

}  // namespace shoal::coordinator
