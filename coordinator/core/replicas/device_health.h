// Takes a device out of service for what its driver reports (state/device_faults.h), and puts
// it back when the report is sound again. A cordon is stored with the agent as a refusal and so
// outlives a restart; `shoal agent uncordon` ends it, too.
//
// - It takes effect after the round: the device gets no new replica, and the running one is
//   released at the next commit, as that of a drained agent is (drain.h).
// - The coordinator cordons at most a quarter of all devices (Cordons); beyond that it only
// reports.
// - All GPUs of a host that stop answering are the fault of its container or driver: one event, and
//   no cordon. Those that were lost a moment before the others are put back.
// - What an operator has uncordoned is not cordoned again for the same report.
#pragma once

#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// What a heartbeat says of devices that changed.
void on_device_samples(Transaction& tx, AgentId agent, const std::vector<DeviceSample>& samples);

// The agent has said hello, with these devices before. Another process counts XIDs from zero.
void note_devices_of_hello(Transaction& tx, AgentId agent, const std::vector<Device>& before,
                           bool same_process);

}  // namespace shoal::coordinator
