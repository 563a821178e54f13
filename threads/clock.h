// Clocks that never go back. Pure libraries are told the time and do not see this header. All
// functions may be called from any thread.
#pragma once

#include <chrono>

#include "base/time.h"

namespace shoal {

// The steady clock. Instants are comparable within one process only.
inline Instant steady_now() {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

// Unix time, read once at construction and carried on by the steady clock: it does not go back
// while the process lives, whatever is done to the host's clock, and instants from before a restart
// stay comparable.
class UnixClock {
 public:
  // Starts at the host's time, or at `not_before` if that is later.
  explicit UnixClock(Instant not_before = {}) {
    const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
    start_.ns = std::chrono::duration_cast<std::chrono::nanoseconds>(unix_time).count();
    if (start_ < not_before) start_ = not_before;
  }
  Instant now() const {
    const auto passed = std::chrono::steady_clock::now() - steady_start_;
    return start_ +
           nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
  }
  // When `at` is, for waits with a deadline.
  std::chrono::steady_clock::time_point steady(Instant at) const {
    return steady_start_ + std::chrono::nanoseconds((at - start_).ns);
  }

 private:
  Instant start_;
  std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();
};

}  // namespace shoal
