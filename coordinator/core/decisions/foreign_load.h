// Load of a device by processes other than its agent's: how much of its time they take, as plans
// take it. A pure rule over what the agent tells. A sample holds until the next one, because agents
// tell what has changed. The share follows it within about a minute, so that a short burst changes
// no plan. A driver that does not answer tells nothing: then the share fades as fast.
//
// A plan counts such a device with the rest of its time, and 5 % at least. Small shares count for
// nothing. The share is not used where a replica of the agent is on the device: its measured
// service times have the load in them.
#pragma once

#include "base/time.h"
#include "messages/device.h"

namespace shoal::coordinator {

struct ForeignLoad {
  double told = 0;   // share of the time, from `at` on
  double share = 0;  // smoothed, at `at`
  Instant at;
};

// `before` null: nothing was heard of the device, so the sample counts at once.
ForeignLoad after_sample(const ForeignLoad* before, const DeviceSample& sample, Instant now);

// The smoothed share, 0 to 1; 0 where it is too small to count.
double foreign_share(const ForeignLoad* load, Instant now);

// What is left of the speed of a device.
double speed_left(double foreign_share);

}  // namespace shoal::coordinator
