#include "coordinator/core/checkpoints/found.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

// Its parts are those of the stages that the job has, or is to have, or had with swarm.recut.
bool fits(const JobRecord& job, const CheckpointRecord& checkpoint) {
  const std::vector<UnitRange> cut = cut_of(job.spec, checkpoint);
  if (job.stages.empty() || job.spec.swarm.recut) return !cut.empty();
  return cut.empty() ? checkpoint.parts.size() == job.stages.size() : cut == cut_of(job);
}

void count_again(Transaction& tx, const CheckpointRecord& found) {
  const JobId id = found.key.job;
  tx.add(found).state = CheckpointState::kStored;
  if (tx.state().jobs.at(id).stages.empty()) {
    for (const UnitRange& units : cut_of(tx.state().jobs.at(id).spec, found)) {
      tx.job(id).stages.push_back({.units = units, .anchor = {}, .momentum = {}});
    }
  }
  tx.volatile_state().found.erase(found.id);
}

void tell(Transaction& tx, const CheckpointRecord& found, const std::string& outcome) {
  tx.event(Severity::kWarning, event_kind::kCheckpointStored,
           {.job = found.key.job, .round = found.key.round},
           to_string(found.id) + " of round " + std::to_string(found.key.round) +
               " was stored after this backup was made; " + outcome);
}

void take_over(Transaction& tx, const CheckpointRecord& found) {
  const JobRecord* job = tx.state().jobs.find(found.key.job);
  if (job == nullptr || !fits(*job, found)) return;
  count_again(tx, found);
  tell(tx, found, "its files are whole, and it counts again");
}

void leave_aside(Transaction& tx, const CheckpointRecord& damaged) {
  tx.event(Severity::kError, event_kind::kCheckpointFailed, {},
           to_string(damaged.id) +
               " is unknown to the database and not whole; its files are kept and not used: " +
               damaged.detail);
}

// The newest first: it defines the stages when no other record does.
std::vector<CheckpointRecord> newest_first(std::vector<CheckpointRecord> found) {
  std::ranges::sort(found, std::greater<>(), &CheckpointRecord::key);
  return found;
}

}  // namespace

bool take_over_found(Transaction& tx, std::vector<CheckpointRecord> found) {
  bool older = false;
  for (const CheckpointRecord& checkpoint : newest_first(std::move(found))) {
    const CheckpointRecord* known = tx.state().checkpoints.find(checkpoint.id);
    if (known != nullptr && known->state == CheckpointState::kStored) continue;
    std::uint64_t& next = tx.counters().next_checkpoint;
    older |= checkpoint.id.n >= next;
    next = std::max(next, checkpoint.id.n + 1);  // nor may another one get its folder
    if (checkpoint.state == CheckpointState::kFailed) {
      leave_aside(tx, checkpoint);
      continue;
    }
    tx.volatile_state().found.put(checkpoint.id, checkpoint);
    take_over(tx, checkpoint);
    if (!tx.state().found.contains(checkpoint.id)) continue;
    const bool known_job = tx.state().jobs.contains(checkpoint.key.job);
    tell(tx, checkpoint,
         known_job ? "its files are kept, its stages are not those of the job"
                   : "its files are kept, the database does not know its job");
  }
  return older;
}

void take_over_found(Transaction& tx, JobId job) {
  std::vector<CheckpointRecord> of_job;
  for (const auto& [id, found] : tx.state().found) {
    if (found.key.job == job) of_job.push_back(found);
  }
  for (const CheckpointRecord& found : newest_first(std::move(of_job))) take_over(tx, found);
}

}  // namespace shoal::coordinator
