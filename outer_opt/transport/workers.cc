// See workers.h.
#include "outer_opt/transport/workers.h"

#include <algorithm>
#include <utility>

namespace shoal::outer_opt {

Workers::Workers(int threads) : count_(threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

void Workers::post(std::function<void()> work) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  waiting_.push_back(std::move(work));
  changed_.notify_one();
}

void Workers::run() {
  for (;;) {
    std::function<void()> work;
    {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_,
                    [this]() SHOAL_REQUIRES(mutex_) { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

void Workers::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  const MutexLock lock(mutex_);
  waiting_.clear();
}

int reduce_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 8);
}

}  // namespace shoal::outer_opt
