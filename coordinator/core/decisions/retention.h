// Which stored checkpoints go before a person deletes them, and what the deletion of one would
// break. Two rules: what jobs that ended long ago keep (--keep-ended), and a budget over all jobs
// (--checkpoints-max-gib). Neither deletes a needed checkpoint: the budget is exceeded instead, and
// an event says so. docs/store.md gives the order.
#pragma once

#include <optional>
#include <vector>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"

namespace shoal::coordinator {

using shoal::to_string;

// Why a checkpoint is needed.
enum class CheckpointNeed {
  kPinned,     // a person said so
  kNewestCut,  // its job has not ended, and would go back to it
  kVerified,   // its job has not ended, and no newer one was loaded or compared
  kBase,       // another job that has not ended begins from it, and may have to begin again
  kLoading,    // a replica loads it now
  kResult,     // the final or the newest one of a job that has ended
};
constexpr auto enumerators_of(Of<CheckpointNeed>) {
  using enum CheckpointNeed;
  return enumerators<CheckpointNeed>({{kPinned, "pinned"},
                                      {kNewestCut, "newest_cut"},
                                      {kVerified, "verified"},
                                      {kBase, "base"},
                                      {kLoading, "loading"},
                                      {kResult, "result"}});
}

struct StoredCheckpoint {
  CheckpointId id;
  JobId job;
  Bytes size;
  bool pinned = false, final = false;
  bool newest = false;                   // of the stored ones of its job
  bool verified = false;                 // the newest of those that were loaded or compared
  bool loading = false;                  // a replica loads it
  std::vector<JobId> begun = {};         // jobs that have not ended and begin from it
  std::optional<Instant> ended_at = {};  // of its job; none: it has not ended
};

// In the order of the enum; empty: it can go.
std::vector<CheckpointNeed> needs_of(const StoredCheckpoint& checkpoint);

struct RetentionInput {
  Instant now;
  std::vector<StoredCheckpoint> stored = {};  // by id, which is the order in which they were begun
  Bytes pending = {};                         // announced of those that are not stored yet
  Bytes max = {};                             // 0: no budget
  Duration keep_ended = {};                   // 0: forever
};

enum class DeletionReason { kEnded, kBudget };
constexpr auto enumerators_of(Of<DeletionReason>) {
  using enum DeletionReason;
  return enumerators<DeletionReason>({{kEnded, "ended"}, {kBudget, "budget"}});
}

struct CheckpointDeletion {
  CheckpointId id;
  DeletionReason reason = DeletionReason::kEnded;
  bool operator==(const CheckpointDeletion&) const = default;
};

struct RetentionDecision {
  std::vector<CheckpointDeletion> deletions;  // in their order
  Bytes kept;                                 // with what is pending
  bool over = false;                          // the budget is exceeded by what is needed
  std::optional<Instant> again_at;            // time alone makes one due then
};

// What is needed stays. Of the rest goes what belongs to jobs that ended at least `keep_ended` ago.
// As long as the budget is exceeded go, further, those of ended jobs, that which ended first before
// others, then those of jobs that have not ended; the oldest first.
RetentionDecision decide_retention(const RetentionInput& input);

}  // namespace shoal::coordinator
