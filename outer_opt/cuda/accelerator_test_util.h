// For tests: an Accelerator that is the host. "Device" memory is memory whose addresses the host
// must not use, but could; the work of a queue is put off until wait() and then done in order by
// the CPU's reference, so code that looks at a result before waiting sees what was there before.
// New memory is filled with a byte that makes no sense. Operations can be made to fail.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/nesterov.h"
#include "outer_opt/cuda/accelerator.h"

namespace shoal::outer_opt {

class HostQueue final : public DeviceQueue {
 public:
  explicit HostQueue(std::atomic<int>& waits_left) : waits_left_(waits_left) {}
  ~HostQueue() override { static_cast<void>(wait()); }

  void upload(const void* pinned, std::size_t size, void* to) override { copy(pinned, size, to); }
  void download(const void* from, std::size_t size, void* pinned) override {
    copy(from, size, pinned);
  }
  void clear(void* memory, std::size_t size) override {
    work_.push_back([=] { std::memset(memory, 0, size); });
  }
  void encode(CodecKind kind, const float* in, std::size_t n, std::byte* out) override {
    work_.push_back([=] { codec(kind).encode({in, n}, bytes(kind, out, n)); });
  }
  void decode(CodecKind kind, const std::byte* in, std::size_t n, float* out,
              int* damaged) override {
    work_.push_back([=] {
      if (!codec(kind).decode(bytes(kind, in, n), {out, n})) *damaged = 1;
    });
  }
  void accumulate(CodecKind kind, const std::byte* in, std::size_t n, float factor, float* sum,
                  int* damaged) override {
    work_.push_back([=] {
      if (!codec(kind).accumulate(bytes(kind, in, n), factor, {sum, n})) *damaged = 1;
    });
  }
  void add(const float* values, std::size_t n, float factor, float* sum, int* damaged) override {
    accumulate(CodecKind::kFp32, reinterpret_cast<const std::byte*>(values), n, factor, sum,
               damaged);
  }
  void scale(float factor, std::size_t n, float* values) override {
    work_.push_back([=] {
      for (std::size_t i = 0; i < n; ++i) values[i] = values[i] * factor;
    });
  }
  void difference(const float* of, const float* minus, std::size_t n, float* out) override {
    work_.push_back([=] {
      for (std::size_t i = 0; i < n; ++i) out[i] = of[i] - minus[i];
    });
  }
  void adopt(double blend, const float* anchor, std::size_t n, float* local) override {
    work_.push_back([=] {
      outer_opt::adopt({{0, static_cast<std::int64_t>(n)}}, blend, {anchor, n}, {local, n});
    });
  }
  void nesterov_step(const OuterSpec& options, const float* average, std::size_t n, float* momentum,
                     float* anchor) override {
    work_.push_back([=] {
      outer_opt::nesterov_step(options, std::span(average, n), std::span(momentum, n),
                               std::span(anchor, n));
    });
  }
  void measure(const float* values, std::size_t n, cuda::PartialStatistics* partial) override {
    work_.push_back([=] {
      std::fill_n(partial, cuda::kStatisticsParts, cuda::PartialStatistics{});
      for (std::size_t i = 0; i < n; ++i) take(values[i], partial[i % cuda::kStatisticsParts]);
    });
  }
  Status wait() override {
    for (const auto& one : work_) one();
    work_.clear();
    if (waits_left_-- > 0) return {};
    return Error{Code::kInternal, "the device is gone", "", ""};
  }

 private:
  template <typename Byte>
  static std::span<Byte> bytes(CodecKind kind, Byte* data, std::size_t n) {
    return {data, codec(kind).encoded_size(n)};
  }
  static void take(float value, cuda::PartialStatistics& part) {
    if (!std::isfinite(value)) {
      ++part.nonfinite;
      return;
    }
    part.squares += static_cast<double>(value) * static_cast<double>(value);
    part.largest = std::max(part.largest, bits_of(value) & kMagnitude);
  }
  void copy(const void* from, std::size_t size, void* to) {
    work_.push_back([=] { std::memcpy(to, from, size); });
  }

  std::atomic<int>& waits_left_;
  std::vector<std::function<void()>> work_;
};

class HostAccelerator final : public Accelerator {
 public:
  Result<void*> allocate(MemoryKind, std::size_t size) override {
    if (size > room) return Error{Code::kResourceExhausted, "the device is full", "", ""};
    void* memory = std::malloc(size);
    std::memset(memory, 0x7f, size);
    ++held;
    return memory;
  }
  void release(MemoryKind, void* memory) override {
    --held;
    std::free(memory);
  }
  Result<std::unique_ptr<DeviceQueue>> make_queue() override {
    return std::unique_ptr<DeviceQueue>(std::make_unique<HostQueue>(waits_left));
  }

  std::atomic<int> held = 0;                // allocations
  std::atomic<int> waits_left = 1 << 30;    // before every wait fails
  std::size_t room = std::size_t{1} << 40;  // for one allocation
};

}  // namespace shoal::outer_opt
