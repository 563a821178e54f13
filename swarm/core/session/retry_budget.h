// How often a sender may send again. Losses come in bursts (a replica dies with all that it held),
// and a storm of repeated work must not follow: a token bucket, shared by the runtime and the
// simulator.
#pragma once

#include "base/fields.h"
#include "base/time.h"

namespace shoal::swarm {

// `per_microbatch` for every microbatch admitted, `per_s` by time so that a step whose every
// microbatch is lost still continues, at most `burst`.
struct RetryBudget {
  double per_microbatch = 0.1;
  double per_s = 1;
  double burst = 256;
};
constexpr auto fields_of(Of<RetryBudget>) {
  using T = RetryBudget;
  return fields<&T::per_microbatch, &T::per_s, &T::burst>();
}

// What is left of the budget of one sender; full at first.
class RetryTokens {
 public:
  explicit RetryTokens(Instant now, const RetryBudget& budget = {})
      : budget_(budget), left_(budget.burst), refilled_(now) {}

  void admitted();         // a microbatch that was not sent before
  bool take(Instant now);  // one token; false: none is left
  Instant next() const;    // when take() will give one, if nothing else happens

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<RetryTokens>) {
    using T = RetryTokens;
    return fields<&T::budget_, &T::left_, &T::refilled_>();
  }

  RetryBudget budget_;
  double left_;
  Instant refilled_;
};

}  // namespace shoal::swarm
