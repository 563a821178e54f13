// Exponential back-off with full jitter: the n-th wait is uniform in [0, min(cap, first * 2^n)],
// but never below a tenth of its range, so that a retry is never immediate.
#pragma once

#include "base/fields.h"
#include "base/prng.h"
#include "base/time.h"

namespace shoal {

class Backoff {
 public:
  Backoff(Duration first, Duration cap) : first_(first), cap_(cap) {}

  Duration next(Prng& prng) {
    std::int64_t range = first_.ns;
    for (int i = 0; i < attempts_ && range < cap_.ns; ++i) range *= 2;
    if (range > cap_.ns) range = cap_.ns;
    ++attempts_;
    return {prng.range(range / 10, range)};
  }
  void reset() { attempts_ = 0; }
  int attempts() const { return attempts_; }

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<Backoff>) {
    using T = Backoff;
    return fields<&T::first_, &T::cap_, &T::attempts_>();
  }

  Duration first_, cap_;
  int attempts_ = 0;
};

}  // namespace shoal
