// Time in which the coordinator itself stood still: it was stopped, starved or not running. A limit
// measures what others do, so the time in which nobody could tell is added to it.
#pragma once

#include <cstddef>
#include <deque>

#include "base/time.h"

namespace shoal::coordinator {

class LostTime {
 public:
  // Nothing was looked at in [from, to). Ignored when it is not later than what was added before.
  void add(Instant from, Instant to);

  // start + limit, and as much more as was lost since `start`.
  Instant deadline(Instant start, Duration limit) const;

 private:
  static constexpr std::size_t kGapsMax = 32;  // the oldest is forgotten: limits are shorter
  struct Gap {
    Instant from, to;
  };
  std::deque<Gap> gaps_;
};

}  // namespace shoal::coordinator
