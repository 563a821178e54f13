// Failures counted per device: exponential backoff of a device whose replicas keep failing, and its
// automatic cordon. A failed replica says that its device is broken, or that its job is. While
// enough other replicas train for the job to continue without the device, the failure counts
// against the device; else it counts against the job (Options::failures_in_row_max), as it does
// where only one device is left.
//
// - A device rests after a failure. The rest begins at Options::replica_backoff and doubles with
//   each failure that counts against the device, up to replica_backoff_max. A replica there that
//   contributes to a committed round sets it back. A job that does not train takes the device after
//   rest_awaited, because it may have no other one.
// - After device_failures_max such failures in a row of one job the coordinator cordons the device:
//   it gets no replica until an operator runs `uncordon`. The failures must have happened while one
//   and the same other replica trained: where all replicas of a job fail in turn, the job is at
//   fault. The cordon is stored with the agent and so outlives a restart.
// - The coordinator cordons at most a quarter of all devices, but at least one: where many devices
//   fail, something else is at fault. Beyond that it only reports.
//
// Failures whose cause may be elsewhere (a source, a line, the data, values that are not finite,
// memory that was promised) count against no device.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// How many devices the coordinator has cordoned for the jobs of a trainer, and whether it may
// cordon one more: at most a quarter of all, but at least one.
struct Cordons {
  std::int64_t devices = 0, cordoned = 0;
  bool may_add() const;
};
Cordons count_cordons(const State& state, const TrainerSpec& trainer);
// Ends the sentence of an event: why a device is not cordoned, and what to do.
std::string what_is_not_cordoned(const AgentRecord& agent, const Cordons& cordons);

// `ended` has failed and is in no list of live replicas any more. Its device rests. True: the
// failure counts against the device, so it does not count against the job.
bool note_device_failure(Transaction& tx, const ReplicaRecord& ended);

// The replica contributed to a committed round, so its device works.
void note_device_works(Transaction& tx, ReplicaId replica);

// How much longer the job does not use the device because a replica failed there; 0: it may.
Duration rest_of(const Transaction& tx, const JobRecord& job, const DeviceKey& device);

// An operator puts the agent back into service: its devices neither rest nor have failed.
void forget_device_failures(Transaction& tx, AgentId agent);
// True: the coordinator has cordoned at least one of its devices.
bool has_cordoned_device(const AgentRecord& agent);

}  // namespace shoal::coordinator
