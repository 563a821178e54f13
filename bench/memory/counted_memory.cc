// See counted_memory.h. malloc_usable_size() tells the size of a block when it is freed, so that
// nothing has to be stored beside it.
#include "bench/memory/counted_memory.h"

#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <torch/version.h>

namespace shoal::bench {
namespace {

constexpr std::size_t kSmallestCounted = 64 << 10;
constexpr std::size_t kAlignment = 64;

void count(MemoryGauge& gauge, void* block, int sign) {
  const std::size_t size = block != nullptr ? malloc_usable_size(block) : 0;
  if (size >= kSmallestCounted) gauge.add(sign * static_cast<std::int64_t>(size));
}

void free_tensor(void* block) {
  count(tensor_memory(), block, -1);
  std::free(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  c10::DataPtr allocate(std::size_t size) override { return counted(size); }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
#else
  c10::DataPtr allocate(std::size_t size) const override { return counted(size); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return free_tensor; }

 private:
  static c10::DataPtr counted(std::size_t size) {
    void* block = nullptr;
    if (size > 0 && posix_memalign(&block, kAlignment, size) != 0) throw std::bad_alloc();
    count(tensor_memory(), block, +1);
    return {block, block, free_tensor, c10::Device(c10::kCPU)};
  }
};

}  // namespace

void MemoryGauge::add(std::int64_t bytes) {
  const std::int64_t now = now_.fetch_add(bytes) + bytes;
  std::int64_t seen = peak_;
  while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
  }
  seen = low_;
  while (now < seen && !low_.compare_exchange_weak(seen, now)) {
  }
}

void MemoryGauge::restart() {
  const std::int64_t now = now_;
  low_ = now;
  peak_ = now;
}

// Constant initialization: operator new is called before any constructor runs.
MemoryGauge& tensor_memory() {
  static constinit MemoryGauge gauge;
  return gauge;
}

MemoryGauge& vector_memory() {
  static constinit MemoryGauge gauge;
  return gauge;
}

void count_tensors() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator);
}

std::int64_t resident_peak() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib << 10;
  }
  return 0;
}

void restart_resident_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace shoal::bench

// Replaces the program's, and by that those of the libraries that it loads. The other forms of new
// and delete come down to these two, or to aligned_alloc() and free().
void* operator new(std::size_t size) {
  void* block = std::malloc(size > 0 ? size : 1);
  if (block == nullptr) throw std::bad_alloc();
  shoal::bench::count(shoal::bench::vector_memory(), block, +1);
  return block;
}

void operator delete(void* block) noexcept {
  shoal::bench::count(shoal::bench::vector_memory(), block, -1);
  std::free(block);
}

void operator delete(void* block, std::size_t) noexcept { operator delete(block); }
