// What this host can train on: the GPUs that NVIDIA's management library lists, or the processor.
// The driver is asked through a helper process (driver_helper.h). Speed is not measured here:
// trainers do that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/host/driver_helper.h"
#include "base/result.h"
#include "messages/messages.h"

namespace shoal::agent {

struct ProbedDevices {
  std::vector<Device> devices;      // numbered from 0, in this order
  std::vector<std::string> gpus{};  // NVML's UUID of each; empty when they are processors
  // Chosen GPUs that are left out, and why, for people: "GPU 1 (GPU-aa22) does not answer …".
  std::vector<std::string> silent{};
};

// choice:
//   "auto"        all GPUs that `visible` leaves, in the order of nvidia-smi; if there are none,
//                 one CPU device
//   "gpu:0,2"     these GPUs, by their numbers in nvidia-smi or by their UUIDs; `visible` is not
//                 asked
//   "cpu[:N]"     N trainers that share the processor and its memory
// visible: $CUDA_VISIBLE_DEVICES, if there is one: which GPUs of the host are for this agent, by
// UUID or by number in the order of nvidia-smi.
// driver.library: one that cannot be loaded, or has no driver, means no GPUs. A GPU that this user
// may not open is left out, and so is one that does not answer in time; one that is not chosen is
// asked for its UUID alone. kUnavailable, with the reason, when the driver, or every chosen GPU,
// does not answer: the host is not taken for one without GPUs. A UUID in `choice` or
// `visible` that is no GPU's is left out, too; kValidation when another name is none's. memory:
// that CPU devices take together, as far as it is free; 0: four fifths of what is free.
Result<ProbedDevices> probe_devices(const std::string& choice,
                                    const std::optional<std::string>& visible,
                                    const DriverOptions& driver, Bytes memory = {});

// $CUDA_VISIBLE_DEVICES.
std::optional<std::string> visible_gpus();

// What `count` CPU devices of this host may take, each; ours: what its trainers hold now.
Bytes usable_host_memory(Bytes declared, Bytes ours, int count);

// The device of an agent with the role reducer: it computes nothing, and has the memory of the
// host, or `memory` of it.
std::vector<Device> reducer_devices(Bytes memory = {});

// $SHOAL_NVML_LIB, or "libnvidia-ml.so.1".
std::string default_nvml_library();

}  // namespace shoal::agent
