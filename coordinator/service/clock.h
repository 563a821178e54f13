// Unix time taken once at start, carried on by the steady clock: it never goes back while the
// process lives, and instants from before a restart stay comparable. It also never starts before
// the newest instant in the store, should the host's clock have been set back.
#pragma once

#include <chrono>

#include "base/time.h"

namespace shoal::coordinator {

class Clock {
 public:
  explicit Clock(Instant not_before = {}) {
    const auto unix = std::chrono::system_clock::now().time_since_epoch();
    start_.ns = std::chrono::duration_cast<std::chrono::nanoseconds>(unix).count();
    if (start_ < not_before) start_ = not_before;
  }
  Instant now() const {
    const auto passed = std::chrono::steady_clock::now() - steady_start_;
    return start_ +
           nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
  }
  std::chrono::steady_clock::time_point steady(Instant at) const {
    return steady_start_ + std::chrono::nanoseconds((at - start_).ns);
  }

 private:
  Instant start_;
  std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();
};

}  // namespace shoal::coordinator
