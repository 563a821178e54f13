// What this host can train on: the GPUs that NVIDIA's management library lists, or the processor.
// NVML is loaded at run time, so that the same binary serves hosts without a driver; our own
// prototypes keep its header out of the build. Speed is not measured here: trainers do that.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "messages/messages.h"

namespace shoal::agent {

// choice: "auto" (GPUs when there are any, else one CPU device), "cpu" or "cpu:N" (N trainers that
// share the processor and its memory). nvml_library: a path or a soname; a library that cannot be
// loaded, or has no driver, means no GPUs. kUnavailable, with NVML's reason, when the driver or a
// GPU does not answer: the host is not taken for one without GPUs. Devices are numbered from 0 in
// order.
Result<std::vector<Device>> probe_devices(const std::string& choice,
                                          const std::string& nvml_library);

// The device of an agent with the role reducer: it computes nothing, and has the memory of the
// host.
std::vector<Device> reducer_devices();

// $SHOAL_NVML_LIB, or "libnvidia-ml.so.1".
std::string default_nvml_library();

}  // namespace shoal::agent
