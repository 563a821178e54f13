#include "coordinator/core/decisions/retention.h"

#include <algorithm>
#include <tuple>

namespace shoal::coordinator {
namespace {

// Those of ended jobs come first, by the end of the job, then by age.
bool goes_before(const StoredCheckpoint& a, const StoredCheckpoint& b) {
  const auto rank = [](const StoredCheckpoint& one) {
    return std::tuple(!one.ended_at.has_value(), one.ended_at.value_or(Instant()), one.id);
  };
  return rank(a) < rank(b);
}

// When --keep-ended deletes it, counted from the end of its job. None: the job has not ended, or
// the limit is 0.
std::optional<Instant> due_at(const StoredCheckpoint& checkpoint, Duration keep_ended) {
  if (!checkpoint.ended_at || keep_ended.ns == 0) return std::nullopt;
  return *checkpoint.ended_at + keep_ended;
}

}  // namespace

std::vector<CheckpointNeed> needs_of(const StoredCheckpoint& checkpoint) {
  std::vector<CheckpointNeed> needs;
  if (checkpoint.pinned) needs.push_back(CheckpointNeed::kPinned);
  const bool ended = checkpoint.ended_at.has_value();
  if (!ended && checkpoint.newest) needs.push_back(CheckpointNeed::kNewestCut);
  if (!ended && checkpoint.verified) needs.push_back(CheckpointNeed::kVerified);
  if (!checkpoint.begun.empty()) needs.push_back(CheckpointNeed::kBase);
  if (checkpoint.loading) needs.push_back(CheckpointNeed::kLoading);
  if (ended && (checkpoint.newest || checkpoint.final)) needs.push_back(CheckpointNeed::kResult);
  return needs;
}

RetentionDecision decide_retention(const RetentionInput& input) {
  RetentionDecision decision;
  decision.kept = input.pending;
  std::vector<StoredCheckpoint> can_go;
  for (const StoredCheckpoint& checkpoint : input.stored) {
    decision.kept += checkpoint.size;
    if (needs_of(checkpoint).empty()) can_go.push_back(checkpoint);
  }
  std::ranges::sort(can_go, goes_before);
  for (const StoredCheckpoint& checkpoint : can_go) {
    const std::optional<Instant> due = due_at(checkpoint, input.keep_ended);
    const bool ended = due && *due <= input.now;
    const bool over = input.max > Bytes() && decision.kept > input.max;
    if (ended || over) {
      decision.deletions.push_back(
          {checkpoint.id, ended ? DeletionReason::kEnded : DeletionReason::kBudget});
      decision.kept -= checkpoint.size;
    } else if (due && (!decision.again_at || *due < *decision.again_at)) {
      decision.again_at = due;
    }
  }
  decision.over = input.max > Bytes() && decision.kept > input.max;
  return decision;
}

}  // namespace shoal::coordinator
