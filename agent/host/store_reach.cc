#include "agent/host/store_reach.h"

namespace shoal::agent {

bool StoreReach::learn(const Transfer& ended, Instant now) {
  if (!ended.failure || ended.moved) return false;
  // Any other failure is an answer: of the coordinator, or of the disk of this host.
  const bool silent = ended.stalled || *ended.failure == Code::kUnavailable ||
                      *ended.failure == Code::kDeadlineExceeded;
  if (!silent) return false;
  carried_until_ = ended.direct ? now + kCarriedFor : Instant();
  return ended.direct;
}

}  // namespace shoal::agent
