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
  // The minute that began then; the sum begins anew. None: nothing was heard.
  std::optional<DevicePoint> take(Instant at);

 private:
  Duration used_, climate_;                                // how long each was heard
  double busy_ = 0, watts_ = 0, mhz_ = 0, throttled_ = 0;  // sums, each value weighed by its time
  DevicePoint most_;
};

}  // namespace shoal::coordinator
