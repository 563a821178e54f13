// What the replicas of a stage hold after an outer step, decided from what they say: all must hold
// the same anchor and outer momentum, bit for bit.
//
// Most of them are right. Where as many say one thing as another, the digests themselves say
// nothing; who is right can be proved by what the step was made of. A claim is proved when its
// replica took the step from the anchor and the momentum that were recorded before it and added the
// average that was committed: the step is arithmetic with one result. When nobody has a proof, or
// proofs contradict each other, nobody can be told apart, and the stage must not continue from
// either. Where nobody who is here has one, a claim of one who is not counts when it is proved.
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
  kAgreed,    // all the same
  kMajority,  // more than any other
  kProved,    // of those that are said by as many, one is proved
  kUndecided  // no state: all are to go
};

struct StateDecision {
  StateVerdict verdict = StateVerdict::kAgreed;
  Digest anchor, momentum;
  std::vector<ReplicaId> odd;  // who holds something else, in the order of the claims
};

// Not of nobody.
StateDecision decide_state(const std::vector<StateClaim>& claims);

}  // namespace shoal::coordinator
