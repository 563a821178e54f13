#include "coordinator/service/device_minute.h"

#include <algorithm>
#include <utility>

namespace shoal::coordinator {

// Values that a driver did not answer count for no time.
void MinuteSum::add(const DeviceSample& sample, Duration time) {
  const bool answers =
      sample.answer == DeviceAnswer::kWhole || sample.answer == DeviceAnswer::kPartial;
  if (!answers || time <= Duration()) return;
  if (sample.use) {
    used_ = used_ + time;
    busy_s_ += sample.use->busy * time.seconds();
    most_.used_here = std::max(most_.used_here, sample.use->used_here);
    most_.used_elsewhere = std::max(most_.used_elsewhere, sample.use->used_elsewhere);
  }
  if (!sample.climate) return;
  climate_ = climate_ + time;
  watt_s_ += sample.climate->watts * time.seconds();
  megacycles_ += sample.climate->mhz * time.seconds();
  if (!sample.climate->throttled.empty()) throttled_s_ += time.seconds();
  most_.celsius = std::max(most_.celsius, sample.climate->celsius);
}

std::optional<DevicePoint> MinuteSum::take(Instant at) {
  MinuteSum sum = std::exchange(*this, {});
  if (sum.used_ == Duration() && sum.climate_ == Duration()) return std::nullopt;
  DevicePoint point = sum.most_;
  point.at = at;
  if (sum.used_ > Duration()) point.busy = sum.busy_s_ / sum.used_.seconds();
  if (sum.climate_ > Duration()) {
    point.watts = sum.watt_s_ / sum.climate_.seconds();
    point.mhz = sum.megacycles_ / sum.climate_.seconds();
    point.throttled = sum.throttled_s_ / sum.climate_.seconds();
  }
  return point;
}

}  // namespace shoal::coordinator
