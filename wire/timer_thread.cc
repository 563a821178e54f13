// See timer_thread.h.
#include "wire/timer_thread.h"

#include <utility>

namespace shoal::wire {

TimerThread::TimerThread() : thread_([this] { run(); }) {}

void TimerThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  for (auto& [when, call] : calls_) call();  // nobody adds to them any more
  calls_.clear();
}

void TimerThread::at(Clock::time_point when, std::function<void()> call) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) {
      const auto at = calls_.emplace(when, std::move(call));
      first = at == calls_.begin();
    }
  }
  if (call) return call();
  if (first) changed_.notify_one();
}

void TimerThread::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (calls_.empty()) {
      changed_.wait(lock);
      continue;
    }
    if (const auto when = calls_.begin()->first; Clock::now() < when) {
      changed_.wait_until(lock, when);
      continue;
    }
    auto call = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
    lock.unlock();
    call();
    call = nullptr;  // what it holds may end here, too: without the lock
    lock.lock();
  }
}

}  // namespace shoal::wire
