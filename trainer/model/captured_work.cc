// See captured_work.h. The stream of a capture must not be the default one. Other threads of the
// process may use the device meanwhile, for the outer step of a fragment, so the capture forbids
// unsafe calls only in its own thread.
#include "trainer/model/captured_work.h"

#include "trainer/model/torch_pch.h"

#define SHOAL_CUDA_GRAPHS \
  (SHOAL_TORCH_CUDA && TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 201)
#if SHOAL_CUDA_GRAPHS
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace shoal::trainer {

#if SHOAL_CUDA_GRAPHS
namespace {

class CudaGraph final : public CapturedWork {
 public:
  explicit CudaGraph(c10::DeviceIndex device) : device_(device) {}

  void capture(const std::function<void()>& work) override {
    const auto stream = at::cuda::getStreamFromPool(/*isHighPriority=*/false, device_);
    at::cuda::getCurrentCUDAStream(device_).synchronize();
    const c10::cuda::CUDAStreamGuard guard(stream);
    work();  // libraries make here what they need once per stream
    stream.synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();  // the recorded work has memory of its own
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      abandon();
      throw;
    }
    graph_.capture_end();
  }

  void launch() override { graph_.replay(); }

 private:
  // The allocator serves the graph until the capture is ended. The end of a broken one throws, too.
  void abandon() {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
    }
  }

  const c10::DeviceIndex device_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

MakeCapturedWork cuda_graphs_of(const DeviceChoice& device) {
  if (device.kind != DeviceKind::kCuda) return {};
  return [index = static_cast<c10::DeviceIndex>(device.ordinal)] {
    return std::make_unique<CudaGraph>(index);
  };
}
#else
MakeCapturedWork cuda_graphs_of(const DeviceChoice&) { return {}; }
#endif

}  // namespace shoal::trainer
