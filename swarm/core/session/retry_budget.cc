#include "swarm/core/session/retry_budget.h"

#include <algorithm>

namespace shoal::swarm {

void RetryTokens::admitted() { left_ = std::min(budget_.burst, left_ + budget_.per_microbatch); }

bool RetryTokens::take(Instant now) {
  const double elapsed = std::max(0.0, (now - refilled_).seconds());
  left_ = std::min(budget_.burst, left_ + budget_.per_s * elapsed);
  refilled_ = now;
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

Instant RetryTokens::next() const {
  return refilled_ + seconds_f(std::max(0.0, 1 - left_) / budget_.per_s) + milliseconds(1);
}

}  // namespace shoal::swarm
