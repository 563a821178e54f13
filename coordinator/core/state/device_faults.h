// What the driver's report of a device means for its work: pure rules over the report before and
// the report now.
//
// A fault cordons the device after the round. Faults that last are read from the report itself: the
// UUID does not answer, the driver wants a recovery action, a row of memory waits for its remap or
// could not be remapped. They end when a report no longer has them. Faults that happen are read
// from counters: a fatal XID, memory errors that were not corrected. Heat and the driver's reasons
// to throttle explain a slow device; they are no faults.
//
// A device that is silent has no fault except its XIDs, which its agent counts: its driver may be
// slow. Counters that fall are no faults either, nor is their rise to where they were.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "coordinator/core/records/agent_record.h"
#include "messages/device.h"

namespace shoal::coordinator {

// What decisions depend on: no temperatures, no ages.
struct DeviceFacts {
  DeviceAnswer answer = DeviceAnswer::kUnknown;
  // As answered last. The counts are the highest so far; XIDs have no `ago`.
  std::optional<DeviceErrors> errors = {};
  bool operator==(const DeviceFacts&) const = default;
};
DeviceFacts facts_after(const DeviceFacts* before, const DeviceSample& now);

// XIDs after which the GPU needs a reset, a reboot of its host or a technician, by NVIDIA's catalog
// (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html). Those that a program
// causes are not among them (13, 31, 43, 45), nor those that the driver has dealt with (63: a row
// remapped, 92: many corrected errors, 94: contained; a remap that they lead to is a fault itself).
bool is_fatal_xid(std::int32_t xid);

// That lasts, by this report; kNone: none, or not answered.
DeviceFault lasting_fault(const DeviceSample& now);

struct FaultSeen {
  DeviceFault fault = DeviceFault::kNone;
  std::vector<std::string> reasons = {};  // each in a few words
};
// The gravest fault that is in this report and was not in the one before, and the reasons of all
// that are new. Without a report before, an XID is new when it is younger than `unheard`: how long
// nobody knew of the device.
FaultSeen new_fault(const DeviceFacts* before, const DeviceSample& now, Duration unheard);

// The fault of a cordoned device after this report, with a reason where it is another one; kNone:
// the cordon ends.
FaultSeen fault_after(DeviceFault fault, const DeviceFacts* before, const DeviceSample& now);

// Ends the sentence of an event: what ends the cordon.
std::string what_ends(DeviceFault fault, const std::string& agent);

}  // namespace shoal::coordinator
