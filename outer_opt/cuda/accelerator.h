// A device as the outer step sees it: memory of its own, pinned memory of the host, and queues that
// do their work in order while the host continues. CudaAccelerator is a GPU; HostAccelerator does
// the same with the CPU's reference and puts everything off until wait(), so that tests show on any
// machine whether somebody looks at a result too early.
//
// float* and std::byte* name memory of the device unless `pinned` is said; values may begin at any
// multiple of 4 bytes, encodings and PartialStatistics begin where allocate() put them. What is
// queued gives the bits of outer_opt/core. An operation that cannot be queued makes the next wait()
// fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"
#include "job/job_spec.h"
#include "outer_opt/cuda/partial_statistics.h"

namespace shoal::outer_opt {

// One thread at a time. The destructor waits.
class DeviceQueue {
 public:
  DeviceQueue() = default;
  virtual ~DeviceQueue() = default;
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  virtual void upload(const void* pinned, std::size_t size, void* to) = 0;
  virtual void download(const void* from, std::size_t size, void* pinned) = 0;
  virtual void clear(void* memory, std::size_t size) = 0;  // zeros

  virtual void encode(CodecKind kind, const float* in, std::size_t n, std::byte* out) = 0;
  // *damaged becomes 1 where Codec::decode() would refuse; it never becomes 0.
  virtual void decode(CodecKind kind, const std::byte* in, std::size_t n, float* out,
                      int* damaged) = 0;
  virtual void accumulate(CodecKind kind, const std::byte* in, std::size_t n, float factor,
                          float* sum, int* damaged) = 0;
  // sum += factor * values; *damaged becomes 1 when one of them is not finite.
  virtual void add(const float* values, std::size_t n, float factor, float* sum, int* damaged) = 0;
  virtual void scale(float factor, std::size_t n, float* values) = 0;
  virtual void difference(const float* of, const float* minus, std::size_t n, float* out) = 0;
  virtual void adopt(double blend, const float* anchor, std::size_t n, float* local) = 0;
  virtual void nesterov_step(const OuterSpec& options, const float* average, std::size_t n,
                             float* momentum, float* anchor) = 0;
  virtual void measure(const float* values, std::size_t n, cuda::PartialStatistics* partial) = 0;

  // Until all that was queued is done, for a minute at most (kUnavailable); what went wrong with it
  // (kInternal).
  virtual Status wait() = 0;
};

enum class MemoryKind { kDevice, kPinned };

// Thread-safe.
class Accelerator {
 public:
  Accelerator() = default;
  virtual ~Accelerator() = default;
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  // kResourceExhausted when there is not so much.
  virtual Result<void*> allocate(MemoryKind kind, std::size_t size) = 0;
  virtual void release(MemoryKind kind, void* memory) = 0;
  virtual Result<std::unique_ptr<DeviceQueue>> make_queue() = 0;
};

// `count` values of T, not initialized. The accelerator outlives it.
template <typename T>
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(Accelerator& device, MemoryKind kind, std::size_t count) {
    auto memory = device.allocate(kind, count * sizeof(T) + 1);  // never nothing
    if (!memory) return memory.error();
    return DeviceMemory(device, kind, static_cast<T*>(*memory), count);
  }
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(kind_, other.kind_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) device_->release(kind_, data_);
  }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::span<T> span() const { return {data_, count_}; }  // to be looked at when it is pinned

 private:
  DeviceMemory(Accelerator& device, MemoryKind kind, T* data, std::size_t count)
      : device_(&device), kind_(kind), data_(data), count_(count) {}
  Accelerator* device_ = nullptr;
  MemoryKind kind_ = MemoryKind::kDevice;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace shoal::outer_opt
