// A GPU of 10 GFLOP/s, half of whose time processes of others take, as its agent tells.
#pragma once

#include "coordinator/core/coordinator_test_util.h"

namespace shoal::coordinator {

inline Hello hello_of_used_gpu() {
  Hello hello{.uid = "uid-gpu", .name = "gpu"};
  Device device{.index = 0, .kind = DeviceKind::kCuda, .name = "H200"};
  device.memory = mebibytes(4096);
  device.gflops = 10;
  device.uuid = "GPU-b";
  hello.devices = {device};
  return hello;
}

inline Heartbeat heartbeat_of_used_gpu() {
  DeviceSample sample{.uuid = "GPU-b", .answer = DeviceAnswer::kWhole};
  sample.use = DeviceUse{.busy = 0.5};
  sample.use->busy_elsewhere = 0.5;
  Heartbeat heartbeat;
  heartbeat.samples = {sample};
  return heartbeat;
}

}  // namespace shoal::coordinator
