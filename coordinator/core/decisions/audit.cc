#include "coordinator/core/decisions/audit.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

bool is_disputed(const AuditInput& input, ReplicaId owner) {
  const auto count = std::ranges::count_if(
      input.disputed, [&](const auto& by_one) { return std::ranges::count(by_one, owner) > 0; });
  return 2 * count > std::ssize(input.disputed);
}

}  // namespace

AuditDecision judge_audit(const AuditInput& input) {
  const auto differs = std::ranges::find_if(
      input.audited, [&](const AuditedRange& range) { return is_disputed(input, range.owner); });
  const bool confirmed = differs == input.audited.end();
  AuditDecision decision;
  if (input.suspects.size() == 2) {
    decision.verdict = AuditVerdict::kFalse;
    decision.named = input.suspects[confirmed ? 1 : 0];
  } else if (!confirmed) {
    decision.verdict = AuditVerdict::kAskThird;
    decision.owner = differs->owner;
    decision.second = differs->second;
  }
  return decision;
}

}  // namespace shoal::coordinator
