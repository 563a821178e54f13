// Work of a device that is recorded once and then launched as a whole, without its many launches by
// the host: a CUDA graph. No torch types in here.
#pragma once

#include <functional>
#include <memory>

#include "trainer/model/torch_bridge.h"

namespace shoal::trainer {

class CapturedWork {
 public:
  virtual ~CapturedWork() = default;

  // Runs `work` once and then records it. It may queue work on the device and must not wait for it.
  // It must take its inputs from, and leave its results in, tensors that outlive this object. What
  // it allocates meanwhile stays allocated. Throws what libtorch throws; then nothing is recorded.
  virtual void capture(const std::function<void()>& work) = 0;

  // Queues what was recorded on the device's current stream.
  virtual void launch() = 0;
};

using MakeCapturedWork = std::function<std::unique_ptr<CapturedWork>()>;

// Empty where there are none: on a CPU, and with a libtorch without CUDA or older than 2.1.
MakeCapturedWork cuda_graphs_of(const DeviceChoice& device);

}  // namespace shoal::trainer
