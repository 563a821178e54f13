// See link_emulation.h.
#include "wire/link_emulation.h"

#include <algorithm>

namespace shoal::wire {

Instant LinkEmulation::pass(Instant& free, Instant now, std::int64_t bytes, double bytes_per_s) {
  if (bytes_per_s <= 0) return now;
  free = std::max(free, now) + seconds_f(static_cast<double>(bytes) / bytes_per_s);
  return free;
}

Instant LinkEmulation::up(Instant now, std::int64_t bytes) {
  const MutexLock lock(mutex_);
  const Instant left = pass(up_free_, now, bytes, options_.up_bytes_per_s);
  Duration delay = options_.rtt / 2;
  if (options_.jitter.ns > 0) {
    delay = delay + seconds_f(options_.jitter.seconds() * prng_.normal());
    delay = std::max(delay, Duration{});
  }
  return left + delay;
}

Instant LinkEmulation::down(Instant now, std::int64_t bytes) {
  const MutexLock lock(mutex_);
  const bool late = down_free_ < now && now < down_free_ + kLateMax;
  return std::max(now, pass(down_free_, late ? down_free_ : now, bytes, options_.down_bytes_per_s));
}

Instant LinkEmulation::up_free() {
  const MutexLock lock(mutex_);
  return up_free_;
}

Instant LinkEmulation::down_free() {
  const MutexLock lock(mutex_);
  return down_free_;
}

}  // namespace shoal::wire
