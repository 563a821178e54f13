// Deadline of the end of this process. A process that is to end joins its threads, and one of them
// may hang where nothing can interrupt it: a file system without its server, a driver. When the
// deadline has passed, a thread of its own logs what did not end and ends the process (_exit).
//
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/time.h"
#include "threads/mutex.h"

namespace shoal::agent {

class StopLimit {
 public:
  // Called once, on a thread of its own, with what did not end. Must end the process; a test gives
  // another one.
  using Expired = std::function<void(const std::string& hangs)>;
  explicit StopLimit(Expired expired);
  ~StopLimit();  // everything has ended in time

  // The process is to end within `limit`. The earliest of several deadlines counts.
  void begin(Duration limit) SHOAL_EXCLUDES(mutex_);
  // What is being waited for from now on, for the log line.
  void waits_for(std::string what) SHOAL_EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  void watch() SHOAL_EXCLUDES(mutex_);

  const Expired expired_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<Clock::time_point> deadline_ SHOAL_GUARDED_BY(mutex_);
  std::string waits_for_ SHOAL_GUARDED_BY(mutex_) = "its deciding thread";
  bool over_ SHOAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace shoal::agent
