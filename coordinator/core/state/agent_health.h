// How an agent is, for people and programs: one pure rule over what is known of it now. The API,
// the command line, the pages and the metrics all show its answer.
//
// Red: it has no connection. Yellow: its heartbeat is late, a replica is slow, a device is
// cordoned, its trainer does not start, or its driver does not answer or answers in part. Green:
// none of these. Heat and the driver's reasons to throttle explain a slow device; they are no
// fault.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/enumerators.h"
#include "coordinator/core/records/agent_record.h"
#include "messages/device.h"

namespace shoal::coordinator {

enum class Health { kGreen, kYellow, kRed };
constexpr auto enumerators_of(Of<Health>) {
  using enum Health;
  return enumerators<Health>({{kGreen, "green"}, {kYellow, "yellow"}, {kRed, "red"}});
}

// The gravest first.
enum class DeviceTroubleKind { kCordoned, kTrainerFails, kLost, kSilent, kPartial };
constexpr auto enumerators_of(Of<DeviceTroubleKind>) {
  using enum DeviceTroubleKind;
  return enumerators<DeviceTroubleKind>({{kCordoned, "cordoned"},
                                         {kTrainerFails, "trainer_fails"},
                                         {kLost, "lost"},
                                         {kSilent, "silent"},
                                         {kPartial, "partial"}});
}

struct DeviceTrouble {
  std::int32_t device = -1;  // -1: the agent does not list it now
  std::string uuid;          // empty: its agent does not say
  DeviceTroubleKind trouble = DeviceTroubleKind::kCordoned;
  std::string reason;  // in the words of who reported it
};

// What is known. Refers to the caller's values.
struct AgentSigns {
  bool connected = false;
  bool late = false;  // its heartbeat
  const std::vector<Device>& devices;
  const std::vector<DeviceRefusal>& refusals;
  const std::vector<DeviceFailure>& failures;
  const std::vector<DeviceSample>& samples;
  const std::vector<std::string>& slow;  // a sentence for each replica that is
};

struct AgentHealth {
  Health health = Health::kRed;
  std::string reason;                   // why it is not green
  std::vector<DeviceTrouble> troubles;  // also of an agent that is red
};

AgentHealth health_of(const AgentSigns& signs);

}  // namespace shoal::coordinator
