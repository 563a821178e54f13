#include "swarm/core/session/reach.h"

#include <string>

#include "base/check.h"

namespace shoal::swarm {

using enum ReachState;

bool allowed(ReachState from, ReachState to) {
  if (to == kReachable) return from != kReachable;
  return to == kUnreachable ? from == kReachable : from == kUnreachable;
}

void Reach::transition(ReachState to) {
  SHOAL_CHECK(allowed(state_, to),
              std::string("reach: ") + to_string(state_) + " -> " + to_string(to));
  state_ = to;
}

bool Reach::watch(Instant now, bool somebody) {
  if (somebody) {
    if (state_ != kReachable) transition(kReachable);
    return false;
  }
  if (state_ == kReachable) {
    transition(kUnreachable);
    since_ = now;
  }
  if (state_ == kCutOff || now - since_ < limit_) return false;
  transition(kCutOff);
  return true;
}

std::optional<Instant> Reach::next_deadline() const {
  if (state_ != kUnreachable) return std::nullopt;
  return since_ + limit_;
}

}  // namespace shoal::swarm
