// See timer_thread.h.
#include "wire/timer_thread.h"

#include <utility>

namespace shoal::wire {

TimerThread::TimerThread() : thread_([this] { run(); }) {}

void TimerThread::stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  decltype(calls_) left;  // nobody adds to them any more
  {
    const MutexLock lock(mutex_);
    left.swap(calls_);
  }
  for (auto& [when, call] : left) call();
}

void TimerThread::at(Clock::time_point when, std::function<void()> call) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    if (!stopped_) {
      const auto at = calls_.emplace(when, std::move(call));
      first = at == calls_.begin();
    }
  }
  if (call) return call();
  if (first) changed_.notify_one();
}

void TimerThread::run() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(mutex_, [this]() SHOAL_REQUIRES(mutex_) { return stopped_ || !calls_.empty(); });
    if (stopped_) return;
    const auto when = calls_.begin()->first;
    const auto is_late = [&]() SHOAL_REQUIRES(mutex_) {
      return stopped_ || calls_.begin()->first < when;
    };
    if (Clock::now() < when && changed_.wait_until(mutex_, when, is_late)) continue;
    auto call = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
    lock.unlock();
    call();
    call = nullptr;  // what it holds may end here, too: without the lock
    lock.lock();
  }
}

}  // namespace shoal::wire
