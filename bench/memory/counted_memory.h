// What a process holds, by whom it was asked for: `tensors`, the memory of libtorch's CPU
// allocator, which is a device's where a replica trains on one; and `vectors`, what C++ asks
// operator new for, which is always the host's. Only blocks of 64 KiB and more count, so that
// what is left is vectors as long as a model. A program that links this counts from its start, but
// for tensors from count_tensors() on. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace shoal::bench {

class MemoryGauge {
 public:
  struct Range {  // bytes
    std::int64_t low = 0, peak = 0;
  };
  void add(std::int64_t bytes);
  Range since_restart() const { return {low_, peak_}; }
  void restart();  // the range is what there is now

 private:
  std::atomic<std::int64_t> now_ = 0, low_ = 0, peak_ = 0;
};

MemoryGauge& tensor_memory();
MemoryGauge& vector_memory();

// libtorch allocates CPU tensors here from now on. Once, before there is one.
void count_tensors();

// The most physical memory of this process since the last restart_resident_peak(); 0: Linux does
// not say.
std::int64_t resident_peak();
void restart_resident_peak();

}  // namespace shoal::bench
