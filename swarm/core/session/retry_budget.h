// How often a sender may send again. Losses come in bursts (a replica dies with all that it held),
// and a storm of repeated work must not follow: a token bucket, shared by the runtime and the
// simulator.
#pragma once

#include "base/digest.h"
#include "base/time.h"

namespace shoal::swarm {

// `per_microbatch` for every microbatch admitted, `per_s` by time so that a step whose every
// microbatch is lost still continues, at most `burst`.
struct RetryBudget {
  double per_microbatch = 0.1;
  double per_s = 1;
  double burst = 256;
};

// What is left of the budget of one sender; full at first.
class RetryTokens {
 public:
  explicit RetryTokens(Instant now, const RetryBudget& budget = {})
      : budget_(budget), left_(budget.burst), refilled_(now) {}

  void admitted();         // a microbatch that was not sent before
  bool take(Instant now);  // one token; false: none is left
  Instant next() const;    // when take() will give one, if nothing else happens

  void add_to(Digester& digester) const;

 private:
  RetryBudget budget_;
  double left_;
  Instant refilled_;
};

}  // namespace shoal::swarm
