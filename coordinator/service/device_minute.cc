#include "coordinator/service/device_minute.h"

#include <algorithm>
#include <utility>

namespace shoal::coordinator {
namespace {

double weight(Duration time) { return static_cast<double>(time.ns); }

}  // namespace

// Values that a driver did not answer count for no time.
void MinuteSum::add(const DeviceSample& sample, Duration time) {
  const bool answers =
      sample.answer == DeviceAnswer::kWhole || sample.answer == DeviceAnswer::kPartial;
  if (!answers || time <= Duration()) return;
  if (sample.use) {
    used_ = used_ + time;
    busy_ += sample.use->busy * weight(time);
    most_.used_here = std::max(most_.used_here, sample.use->used_here);
    most_.used_elsewhere = std::max(most_.used_elsewhere, sample.use->used_elsewhere);
  }
  if (!sample.climate) return;
  climate_ = climate_ + time;
  watts_ += sample.climate->watts * weight(time);
  mhz_ += sample.climate->mhz * weight(time);
  if (!sample.climate->throttled.empty()) throttled_ += weight(time);
  most_.celsius = std::max(most_.celsius, sample.climate->celsius);
}

std::optional<DevicePoint> MinuteSum::take(Instant at) {
  MinuteSum sum = std::exchange(*this, {});
  if (sum.used_ == Duration() && sum.climate_ == Duration()) return std::nullopt;
  DevicePoint point = sum.most_;
  point.at = at;
  if (sum.used_ > Duration()) point.busy = sum.busy_ / weight(sum.used_);
  if (sum.climate_ > Duration()) {
    point.watts = sum.watts_ / weight(sum.climate_);
    point.mhz = sum.mhz_ / weight(sum.climate_);
    point.throttled = sum.throttled_ / weight(sum.climate_);
  }
  return point;
}

}  // namespace shoal::coordinator
