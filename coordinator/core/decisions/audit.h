// What an audit came to (outer_opt/core/round/audit.h): a pure decision over what the members found
// when they compared the frames that were made twice. All of them have both frames, so it takes
// more than half of them to say that an owner's differ.
//
//   nothing differs                      the average is confirmed
//   an owner's frames differ             it or the second owner averaged falsely: a third makes
//                                        the frames again
//   the third differs from the owner     too, so the owner averaged falsely
//   the third agrees with the owner      the second owner did
//
// With one liar among the three the right one is named. A member that sends two owners different
// things makes an honest owner look false; nobody can tell that from outside.
#pragma once

#include <vector>

#include "base/ids.h"
#include "outer_opt/core/round/reduce_plan.h"

namespace shoal::coordinator {

struct AuditInput {
  std::vector<AuditedRange> audited;
  std::vector<ReplicaId> suspects;               // the owner and its second, when this is a third
  std::vector<std::vector<ReplicaId>> disputed;  // by each member with a say
};

enum class AuditVerdict { kConfirmed, kAskThird, kFalse };

struct AuditDecision {
  AuditVerdict verdict = AuditVerdict::kConfirmed;
  ReplicaId owner, second;  // kAskThird: of the frames that differ
  ReplicaId named;          // kFalse
};

AuditDecision judge_audit(const AuditInput& input);

}  // namespace shoal::coordinator
