// A few vectors that are used again and again: a tensor of some MiB costs more to get from the
// system, page by page, than to fill. Thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "threads/mutex.h"

namespace shoal::swarm {

template <typename T>
class Buffers {
 public:
  // `size` values with unspecified content.
  std::vector<T> take(std::size_t size) {
    std::vector<T> buffer;
    {
      const MutexLock lock(mutex_);
      if (!kept_.empty()) buffer = std::move(kept_.back()), kept_.pop_back();
    }
    buffer.resize(size);
    return buffer;
  }
  void give_back(std::vector<T> buffer) {
    const MutexLock lock(mutex_);
    if (buffer.capacity() > 0 && kept_.size() < kKeptMax) kept_.push_back(std::move(buffer));
  }

 private:
  static constexpr std::size_t kKeptMax = 16;
  Mutex mutex_;
  std::vector<std::vector<T>> kept_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::swarm
