// The clocks of a process. Pure libraries are told the time and do not see this header. All
// functions may be called from any thread.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace shoal {

// The steady clock. Instants are comparable within one process only.
inline Instant steady_now() {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

// Unix time as the host has it, for what other hosts judge: certificates and tokens. It jumps when
// the host's clock is set.
inline Instant unix_now() {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(
              std::chrono::system_clock::now().time_since_epoch())
              .count()};
}

// Unix time that never goes back: read once at construction and carried on by the steady clock,
// whatever is done to the host's clock meanwhile. Instants from before a restart stay comparable.
class UnixClock {
 public:
  // Starts at the host's time, or at `not_before` if that is later.
  explicit UnixClock(Instant not_before = {}) { start_ = std::max(unix_now(), not_before); }
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
