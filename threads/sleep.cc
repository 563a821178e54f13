// See sleep.h.
#include "threads/sleep.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace shoal {

bool sleep_unless_stopped(Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, std::chrono::nanoseconds(duration.ns), [] { return false; });
  return !stop.stop_requested();
}

}  // namespace shoal
