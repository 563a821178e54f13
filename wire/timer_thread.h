// Calls functions at times, on one thread of its own, in the order of their times. For what must
// happen although nobody works: dialing again, the release of delayed bytes, pings. Callers bound
// what they schedule; a function must not block.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>

#include "threads/mutex.h"

namespace shoal::wire {

class TimerThread {
 public:
  using Clock = std::chrono::steady_clock;

  TimerThread();
  ~TimerThread() { stop(); }
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

  // Calls at once what is still waiting, and everything from now on; ends the thread. Not from
  // within a call; any number of times.
  void stop() SHOAL_EXCLUDES(mutex_);

  // Any thread, also from within a call.
  void at(Clock::time_point when, std::function<void()> call) SHOAL_EXCLUDES(mutex_);

 private:
  void run() SHOAL_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::multimap<Clock::time_point, std::function<void()>> calls_ SHOAL_GUARDED_BY(mutex_);
  bool stopped_ SHOAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shoal::wire
