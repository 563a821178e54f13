#include "coordinator/core/checkpoints/keeping.h"

#include <algorithm>
#include <vector>

#include "base/number_text.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/records/event_kinds.h"
#include "job/data_rules.h"

namespace shoal::coordinator {
namespace {

std::string size_words(Bytes size) { return size_text(static_cast<double>(size.count())); }

// A live job begins from it, and may have to begin again.
std::vector<JobId> begun_from(const State& state, CheckpointId id) {
  std::vector<JobId> begun;
  for (const auto& [job, record] : state.jobs) {
    const bool first = checkpoint_of_weights(record.spec.model.init) == id ||
                       checkpoint_of_weights(record.spec.train.continue_from) == id;
    if (first && !is_terminal(record.phase)) begun.push_back(job);
  }
  return begun;
}

bool is_loaded(const State& state, CheckpointId id) {
  return std::ranges::any_of(state.replicas, [&](const auto& entry) {
    const ReplicaRecord& replica = entry.second;
    const bool loads =
        replica.state == ReplicaState::kAssigned || replica.state == ReplicaState::kLoading;
    return loads && replica.source.kind == SourceKind::kCheckpoint &&
           replica.source.checkpoint == id;
  });
}

// The checkpoint that a paused job stands at; null: none. A coordinator that starts with a backup
// may know newer ones of it.
const CheckpointRecord* paused_at(const State& state, const JobRecord* job) {
  if (job == nullptr || job->phase != JobPhase::kPaused) return nullptr;
  return checkpoint_of_committed(state, *job);
}

// The newest one that a replica has loaded, or whose content was compared; null: none.
const CheckpointRecord* newest_verified(const State& state, JobId job) {
  const CheckpointRecord* newest = nullptr;
  for (const auto& [id, checkpoint] : state.checkpoints) {
    const bool verified = checkpoint.key.job == job && checkpoint.verified_at.ns > 0 &&
                          checkpoint.state == CheckpointState::kStored;
    if (verified && (newest == nullptr || newest->key < checkpoint.key)) newest = &checkpoint;
  }
  return newest;
}

bool has_rules(const Options& options) {
  return options.checkpoints_max > Bytes() || options.keep_ended.ns > 0;
}

RetentionInput retention_input(const Transaction& tx) {
  RetentionInput input{
      .now = tx.now(), .max = tx.options().checkpoints_max, .keep_ended = tx.options().keep_ended};
  for (const auto& [id, checkpoint] : tx.state().checkpoints) {
    if (checkpoint.state == CheckpointState::kStored) {
      input.stored.push_back(facts_of(tx.state(), checkpoint));
    } else {
      input.pending += total_size(checkpoint);
    }
  }
  return input;
}

std::string reason_text(const Transaction& tx, DeletionReason reason) {
  return reason == DeletionReason::kBudget
             ? "all checkpoints take more than --checkpoints-max-gib, " +
                   size_words(tx.options().checkpoints_max)
             : "its job ended longer ago than --keep-ended";
}

void tell_budget(Transaction& tx, const RetentionDecision& decision) {
  bool& told = tx.volatile_state().over_budget;
  if (decision.over && !told) {
    tx.event(
        Severity::kWarning, event_kind::kCheckpointsOverBudget, {},
        "checkpoints take " + size_words(decision.kept) + " of " +
            size_words(tx.options().checkpoints_max) +
            " (--checkpoints-max-gib), and each of them is needed; jobs continue to store. Delete "
            "some with `shoal checkpoint rm`, or raise the budget");
  }
  told = decision.over;
}

}  // namespace

StoredCheckpoint facts_of(const State& state, const CheckpointRecord& checkpoint) {
  const JobId job = checkpoint.key.job;
  const JobRecord* record = state.jobs.find(job);
  const CheckpointRecord* newest = newest_stored(state, job);
  const CheckpointRecord* paused = paused_at(state, record);
  StoredCheckpoint facts{.id = checkpoint.id, .job = job, .size = total_size(checkpoint)};
  facts.pinned = checkpoint.pinned;
  facts.final = checkpoint.final;
  facts.newest = newest != nullptr && newest->id == checkpoint.id;
  facts.newest |= paused != nullptr && paused->id == checkpoint.id;
  const CheckpointRecord* verified = newest_verified(state, job);
  facts.verified = verified != nullptr && verified->id == checkpoint.id;
  facts.loading = is_loaded(state, checkpoint.id);
  facts.begun = begun_from(state, checkpoint.id);
  const bool ended = record == nullptr || is_terminal(record->phase);
  if (ended) facts.ended_at = record == nullptr ? checkpoint.updated_at : record->finished_at;
  return facts;
}

void delete_checkpoint(Transaction& tx, CheckpointId id, const std::string& why) {
  CheckpointRecord& checkpoint = tx.checkpoint(id);
  checkpoint.state = CheckpointState::kDeleted;
  tx.event(Severity::kInfo, event_kind::kCheckpointDeleted, {.job = checkpoint.key.job},
           to_string(id) + " deleted: " + why);
  tx.drop_checkpoint(id);
  tx.delete_files(id);
}

void delete_superseded(Transaction& tx, JobId job) {
  const std::int64_t keep = tx.state().jobs.at(job).spec.checkpoint.keep;
  std::vector<CheckpointId> stored;  // oldest first: ids grow
  for (const auto& [id, checkpoint] : tx.state().checkpoints) {
    const bool counts = checkpoint.key.job == job && checkpoint.state == CheckpointState::kStored;
    if (counts && !checkpoint.final && !checkpoint.pinned) stored.push_back(id);
  }
  const CheckpointRecord* verified = newest_verified(tx.state(), job);
  const CheckpointId loadable = verified == nullptr ? CheckpointId() : verified->id;
  for (std::size_t i = 0; static_cast<std::int64_t>(stored.size() - i) > keep; ++i) {
    if (stored[i] == loadable || !begun_from(tx.state(), stored[i]).empty()) continue;
    delete_checkpoint(tx, stored[i], "checkpoint.keep is " + std::to_string(keep));
  }
}

void look_through_soon(Transaction& tx) {
  if (has_rules(tx.options())) tx.volatile_state().next_retention = tx.now();
}

void keep_retention(Transaction& tx) {
  std::optional<Instant>& next = tx.volatile_state().next_retention;
  if (!next || tx.now() < *next) return;
  const RetentionDecision decision = decide_retention(retention_input(tx));
  for (const CheckpointDeletion& deletion : decision.deletions) {
    delete_checkpoint(tx, deletion.id, reason_text(tx, deletion.reason));
  }
  tell_budget(tx, decision);
  next = decision.again_at;
}

}  // namespace shoal::coordinator
