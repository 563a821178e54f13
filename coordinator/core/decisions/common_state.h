// Decides from the replicas' claims which state a stage holds after an outer step: all its replicas
// must hold the same anchor and outer momentum, bit for bit.
//
// The majority is right. In a tie the digests alone decide nothing, but a claim can be proved: its
// replica took the step from the recorded anchor and momentum and added the committed average, and
// the step is arithmetic with one result. When no claim is proved, or proved claims contradict each
// other, the stage must not continue from any of them.
#pragma once

#include <vector>

#include "base/digest.h"
#include "base/ids.h"

namespace shoal::coordinator {

struct StateClaim {
  ReplicaId replica;
  Digest anchor, momentum;
  bool proved = false;
};

enum class StateVerdict {
  kAgreed,    // all claims are equal
  kMajority,  // one state has more claims than any other
  kProved,    // a tie, in which one state is proved
  kUndecided  // no state: all replicas must be released
};

struct StateDecision {
  StateVerdict verdict = StateVerdict::kAgreed;
  Digest anchor, momentum;
  std::vector<ReplicaId> odd;  // those that hold another state, in the order of the claims
};

// `claims` must not be empty.
StateDecision decide_state(const std::vector<StateClaim>& claims);

}  // namespace shoal::coordinator
