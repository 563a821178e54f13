// A slow, distant line between processes of one machine: what it would do to the messages of one
// process, as times. Bytes of all senders leave one after another at the line's rate, and
// arrive half a round trip later; what comes in shares the other direction in the same way. Nothing
// is lost: a lossy line shows itself to TCP's users as delay. No clock, no thread of its own:
// emulated_line.h holds bytes back until the time that it is told here.
#pragma once

#include <cstdint>

#include "base/link_options.h"
#include "base/prng.h"
#include "base/time.h"
#include "threads/mutex.h"

namespace shoal::wire {

// Messages of a reader wait for a timer each; on a busy machine one is milliseconds late.
inline constexpr Duration kLateMax = milliseconds(20);

// Thread-safe. Times are those of one clock, any.
class LinkEmulation {
 public:
  explicit LinkEmulation(const LinkOptions& options) : options_(options), prng_(options.seed) {}

  // When `bytes` that are sent at `now` come out of the line.
  Instant up(Instant now, std::int64_t bytes);
  // When `bytes` that came out of the sender's line at `now` have passed the receiver's. A busy
  // line goes by its own times, not by those of the process that reads: who wakes up late, by less
  // than kLateMax, loses none of the rate, and a line that idled for so long carries a little more.
  Instant down(Instant now, std::int64_t bytes);

  // When all that was sent, or has come, so far is through.
  Instant up_free();
  Instant down_free();

 private:
  static Instant pass(Instant& free, Instant now, std::int64_t bytes, double bytes_per_s);

  const LinkOptions options_;
  Mutex mutex_;
  Prng prng_ SHOAL_GUARDED_BY(mutex_);
  Instant up_free_ SHOAL_GUARDED_BY(mutex_);
  Instant down_free_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::wire
