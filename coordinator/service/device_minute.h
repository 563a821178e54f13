// What a device did in the minute that runs, from samples that each hold until the next one: agents
// tell only what has changed.
#pragma once

#include <optional>

#include "coordinator/store/device_history.h"

namespace shoal::coordinator {

// The minute that `at` is in.
constexpr Instant minute_of(Instant at) { return {at.ns - at.ns % kDeviceMinute.ns}; }

class MinuteSum {
 public:
  void add(const DeviceSample& sample, Duration time);  // it held for so long
  // Of the minute that began then, and begins anew; none: nothing was heard.
  std::optional<DevicePoint> take(Instant at);

 private:
  Duration used_, climate_;  // how long each was heard
  double busy_s_ = 0, watt_s_ = 0, megacycles_ = 0, throttled_s_ = 0;
  DevicePoint most_;
};

}  // namespace shoal::coordinator
