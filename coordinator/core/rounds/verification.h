// What is looked at when the members of a reduce agree, before the round may commit: whether they
// sent what they reported (decisions/sent_norms.h), and, for a share of the frames, whether the
// owners of parts averaged what they were sent (outer_opt/core/round/audit.h, decisions/audit.h).
//
// A member that is caught gets weight 0, owns nothing for the rest of the round, is named, and gets
// a violation. A false average quarantines its agent at once, because bits prove it. If one of two
// must have lied, neither is blamed.
//
// A reducer is done after those that train have voted. Where nobody else can tell what a member
// sent its word is waited for, for failure_grace.
//
// Not in groups, where what members send tells nothing of the norms that they reported.
#pragma once

#include <vector>

#include "coordinator/core/decisions/attempt.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

enum class Verdict {
  kSound,
  kWait,   // for the words of reducers, until `wakeup_at`
  kAudit,  // the average is to be confirmed by this audit first
  kVoid,   // the next attempt goes without what was found
};

struct Verification {
  Verdict verdict = Verdict::kSound;
  AttemptReason reason = AttemptReason::kAllEqual;  // kVoid
  std::vector<AuditedRange> audited;                // kAudit
  Instant wakeup_at;                                // kWait
};

// Verifies a reduce whose newest attempt agrees.
Verification verify(Transaction& tx, const RoundKey& key, ReduceIndex reduce);

}  // namespace shoal::coordinator
