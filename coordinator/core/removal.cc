#include "coordinator/core/removal.h"

#include <utility>
#include <vector>

#include "coordinator/core/checkpoints/checkpoint_commands.h"
#include "coordinator/core/checkpoints/keeping.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kField = "job";

std::vector<CheckpointId> checkpoints_of(const State& state, JobId job) {
  std::vector<CheckpointId> ids;
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job == job) ids.push_back(id);
  }
  return ids;
}

// Checkpoints that somebody needs although the job has ended, by name.
std::vector<FieldError> needed(const State& state, JobId job) {
  std::vector<FieldError> fields;
  for (const CheckpointId id : checkpoints_of(state, job)) {
    const StoredCheckpoint facts = facts_of(state, state.checkpoints.at(id));
    const std::string pointer = "/checkpoints/" + to_string(id);
    if (facts.pinned) {
      fields.push_back(
          {pointer, "it is pinned: `shoal checkpoint unpin " + to_string(id) + "` first"});
    }
    for (const JobId other : facts.begun) {
      fields.push_back({pointer, "job " + state.jobs.at(other).spec.name +
                                     " begins from it, and has not ended"});
    }
    if (facts.loading) fields.push_back({pointer, "a replica loads it now"});
  }
  return fields;
}

void remove(Transaction& tx, const RemoveJob& command) {
  const std::vector<CheckpointId> all = checkpoints_of(tx.state(), command.job);
  for (const CheckpointId id : all) delete_checkpoint(tx, id, "its job is removed");
  for (const CheckpointRecord& aside : command.aside) {
    if (!tx.state().checkpoints.contains(aside.id)) remove_aside(tx, aside);
  }
  JobRecord& job = tx.job(command.job);
  job.removed_at = tx.now();
  tx.event(Severity::kInfo, event_kind::kJobRemoved, {},
           "job " + job.spec.name + " (" + to_string(job.id) + ") is removed, with " +
               std::to_string(all.size() + command.aside.size()) + " checkpoints and its history");
  look_through_soon(tx);
}

}  // namespace

void on_remove_job(Transaction& tx, const RemoveJob& command) {
  const JobRecord* job = tx.state().jobs.find(command.job);
  if (job == nullptr || job->removed_at.ns != 0) {
    return tx.reply(command.request, Error{Code::kNotFound, "there is no " + to_string(command.job),
                                           kField, "`shoal job ls` lists the jobs"});
  }
  if (!is_terminal(job->phase)) {
    return tx.reply(command.request,
                    Error{Code::kConflict, "job " + job->spec.name + " is " + to_string(job->phase),
                          kField, "cancel it, or wait until it has ended"});
  }
  if (auto fields = needed(tx.state(), command.job); !fields.empty()) {
    const Error error{Code::kConflict, "checkpoints of job " + job->spec.name + " are needed",
                      kField, "unpin them, and wait for the jobs that are named"};
    return tx.reply(command.request, error, std::move(fields));
  }
  remove(tx, command);
  tx.reply(command.request, command.job);
}

}  // namespace shoal::coordinator
