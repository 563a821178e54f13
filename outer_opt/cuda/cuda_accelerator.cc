// See cuda_accelerator.h.
#include "outer_opt/cuda/cuda_accelerator.h"

#include <chrono>
#include <string>
#include <thread>

#include "outer_opt/cuda/device_codec.h"

namespace shoal::outer_opt {
namespace {

constexpr auto kWaitLimit = std::chrono::seconds(60);
// A frame takes some ten microseconds; what takes longer need not burn a processor.
constexpr auto kSpin = std::chrono::microseconds(50), kNap = std::chrono::microseconds(20);

Status told(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return Error{Code::kInternal, std::string("CUDA error: ") + cudaGetErrorString(error), "",
               "look at the device with nvidia-smi"};
}

class CudaQueue final : public DeviceQueue {
 public:
  CudaQueue(int device, cudaStream_t stream) : device_(device), stream_(stream) {}
  ~CudaQueue() override {
    static_cast<void>(wait());
    cudaStreamDestroy(stream_);
  }

  void upload(const void* pinned, std::size_t size, void* to) override {
    copy(to, pinned, size, cudaMemcpyHostToDevice);
  }
  void download(const void* from, std::size_t size, void* pinned) override {
    copy(pinned, from, size, cudaMemcpyDeviceToHost);
  }
  void clear(void* memory, std::size_t size) override {
    queue([&] { return told(cudaMemsetAsync(memory, 0, size, stream_)); });
  }
  void encode(CodecKind kind, const float* in, std::size_t n, std::byte* out) override {
    queue([&] { return cuda::encode(kind, in, n, out, stream_); });
  }
  void decode(CodecKind kind, const std::byte* in, std::size_t n, float* out,
              int* damaged) override {
    queue([&] { return cuda::decode(kind, in, n, out, damaged, stream_); });
  }
  void accumulate(CodecKind kind, const std::byte* in, std::size_t n, float factor, float* sum,
                  int* damaged) override {
    queue([&] { return cuda::accumulate(kind, in, n, factor, sum, damaged, stream_); });
  }
  void add(const float* values, std::size_t n, float factor, float* sum, int* damaged) override {
    queue([&] { return cuda::add(values, n, factor, sum, damaged, stream_); });
  }
  void scale(float factor, std::size_t n, float* values) override {
    queue([&] { return cuda::scale(factor, n, values, stream_); });
  }
  void difference(const float* of, const float* minus, std::size_t n, float* out) override {
    queue([&] { return cuda::difference(of, minus, n, out, stream_); });
  }
  void adopt(double blend, const float* anchor, std::size_t n, float* local) override {
    queue([&] { return cuda::adopt(blend, anchor, n, local, stream_); });
  }
  void nesterov_step(const OuterSpec& options, const float* average, std::size_t n, float* momentum,
                     float* anchor) override {
    queue([&] { return cuda::nesterov_step(options, average, n, momentum, anchor, stream_); });
  }
  void measure(const float* values, std::size_t n, cuda::PartialStatistics* partial) override {
    queue([&] { return cuda::measure(values, n, partial, stream_); });
  }
  Status wait() override;

 private:
  // Nothing more is queued after the first failure.
  template <typename Operation>
  void queue(const Operation& operation) {
    if (!so_far_) return;
    so_far_ = told(cudaSetDevice(device_));
    if (so_far_) so_far_ = operation();
  }
  void copy(void* to, const void* from, std::size_t size, cudaMemcpyKind kind) {
    queue([&] { return told(cudaMemcpyAsync(to, from, size, kind, stream_)); });
  }

  const int device_;
  const cudaStream_t stream_;
  Status so_far_;  // the first failure stays
};

Status CudaQueue::wait() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  cudaSetDevice(device_);
  cudaError_t state = cudaStreamQuery(stream_);
  while (state == cudaErrorNotReady) {
    const auto waited = Clock::now() - start;
    if (waited > kWaitLimit) {
      so_far_ = Error{Code::kUnavailable, "CUDA error: the device does not come to an end", "",
                      "look at the device with nvidia-smi"};
      return so_far_;
    }
    if (waited > kSpin) std::this_thread::sleep_for(kNap);
    state = cudaStreamQuery(stream_);
  }
  if (so_far_) so_far_ = told(state);
  return so_far_;
}

class CudaAccelerator final : public Accelerator {
 public:
  explicit CudaAccelerator(int device) : device_(device) {}

  Result<void*> allocate(MemoryKind kind, std::size_t size) override {
    if (Status here = told(cudaSetDevice(device_)); !here) return here.error();
    void* memory = nullptr;
    const cudaError_t error = kind == MemoryKind::kDevice
                                  ? cudaMalloc(&memory, size)
                                  : cudaHostAlloc(&memory, size, cudaHostAllocPortable);
    if (error == cudaSuccess) return memory;
    cudaGetLastError();  // it is told here
    Error failure = told(error).error();
    if (error == cudaErrorMemoryAllocation) failure.code = Code::kResourceExhausted;
    return failure;
  }
  void release(MemoryKind kind, void* memory) override {
    cudaSetDevice(device_);
    kind == MemoryKind::kDevice ? cudaFree(memory) : cudaFreeHost(memory);
  }
  Result<std::unique_ptr<DeviceQueue>> make_queue() override {
    cudaStream_t stream = nullptr;
    Status made = told(cudaSetDevice(device_));
    if (made) made = told(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (!made) return made.error();
    return std::unique_ptr<DeviceQueue>(std::make_unique<CudaQueue>(device_, stream));
  }

 private:
  const int device_;
};

}  // namespace

Result<std::unique_ptr<Accelerator>> make_cuda_accelerator(int device) {
  if (device < 0 || device >= cuda::device_count()) {
    return Error{Code::kNotFound, "there is no CUDA device " + std::to_string(device), "",
                 "take an index that nvidia-smi lists"};
  }
  return std::unique_ptr<Accelerator>(std::make_unique<CudaAccelerator>(device));
}

}  // namespace shoal::outer_opt
