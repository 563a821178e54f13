// See timer_thread.h.
#include "wire/timer_thread.h"

#include <utility>

namespace shoal::wire {

TimerThread::TimerThread() : thread_([this] { run(); }) {}

TimerThread::~TimerThread() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void TimerThread::at(Clock::time_point when, std::function<void()> call) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = calls_.emplace(when, std::move(call)) == calls_.begin();
  }
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
