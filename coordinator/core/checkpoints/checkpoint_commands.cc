#include "coordinator/core/checkpoints/checkpoint_commands.h"

#include <utility>
#include <vector>

#include "coordinator/core/checkpoints/keeping.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kField = "checkpoint";

std::string name_of_job(const State& state, JobId id) {
  const JobRecord* job = state.jobs.find(id);
  return job == nullptr ? to_string(id) : job->spec.name;
}

std::string list_of_jobs(const State& state, const std::vector<JobId>& jobs) {
  std::string list;
  for (const JobId job : jobs) list += (list.empty() ? "" : ", ") + name_of_job(state, job);
  return list;
}

// What breaks when it goes, for people.
std::string sentence(const State& state, const StoredCheckpoint& facts, CheckpointNeed need) {
  const std::string job = name_of_job(state, facts.job);
  switch (need) {
    case CheckpointNeed::kPinned:
      return "it is pinned";
    case CheckpointNeed::kNewestCut:
      return "job " + job + " has not ended, and this is the newest state that it could go back to";
    case CheckpointNeed::kVerified:
      return "job " + job + " has not ended, and no newer checkpoint was loaded or compared";
    case CheckpointNeed::kBase:
      return "unfinished jobs began from its weights: " + list_of_jobs(state, facts.begun);
    case CheckpointNeed::kLoading:
      return "a replica loads it now";
    case CheckpointNeed::kResult:
      return facts.final ? "it is the final checkpoint of job " + job
                         : "it is the newest checkpoint of job " + job + ", which has ended";
  }
  return {};
}

std::vector<FieldError> what_breaks(const State& state, const CheckpointRecord& checkpoint) {
  const StoredCheckpoint facts = facts_of(state, checkpoint);
  std::vector<FieldError> fields;
  for (const CheckpointNeed need : needs_of(facts)) {
    fields.push_back({std::string("/") + to_string(need), sentence(state, facts, need)});
  }
  return fields;
}

void pin(Transaction& tx, CheckpointId id, bool pinned) {
  if (tx.state().checkpoints.at(id).pinned == pinned) return;
  CheckpointRecord& checkpoint = tx.checkpoint(id);
  checkpoint.pinned = pinned;
  tx.event(Severity::kInfo,
           pinned ? event_kind::kCheckpointPinned : event_kind::kCheckpointUnpinned,
           {.job = checkpoint.key.job, .round = checkpoint.key.round},
           to_string(id) + (pinned ? " is pinned: no rule deletes it" : " is not pinned any more"));
  look_through_soon(tx);
}

void remove(Transaction& tx, const CommandCheckpoint& command) {
  const CheckpointId id = command.checkpoint.id;
  auto breaks = what_breaks(tx.state(), tx.state().checkpoints.at(id));
  if (!breaks.empty() && !command.force) {
    const Error error{Code::kConflict, to_string(id) + " is needed", kField,
                      "keep it, or delete it anyway with --force"};
    return tx.reply(command.request, error, std::move(breaks));
  }
  const JobId job = tx.state().checkpoints.at(id).key.job;
  delete_checkpoint(tx, id, "an operator has removed it");
  look_through_soon(tx);
  tx.reply(command.request, job);
}

Error not_stored(const CheckpointRecord& checkpoint, std::string remedy) {
  return {Code::kConflict,
          to_string(checkpoint.id) + " is " + to_string(checkpoint.state) + ", not stored", kField,
          std::move(remedy)};
}

void on_unknown(Transaction& tx, const CommandCheckpoint& command) {
  const CheckpointRecord& stored = command.checkpoint;
  const bool aside = stored.state == CheckpointState::kFailed;
  if (aside && command.verb == CheckpointVerb::kRemove) {
    remove_aside(tx, stored);
    return tx.reply(command.request, stored.key.job);
  }
  if (aside || stored.state == CheckpointState::kDeleted) {
    return tx.reply(command.request,
                    not_stored(stored, "`shoal checkpoint ls` lists those that are"));
  }
  tx.reply(command.request, Error{Code::kNotFound, to_string(stored.id) + " is gone", kField,
                                  "`shoal checkpoint ls` lists those that are stored"});
}

}  // namespace

void remove_aside(Transaction& tx, CheckpointRecord aside) {
  const CheckpointId id = tx.add(std::move(aside)).id;
  delete_checkpoint(tx, id, "it was damaged, and an operator has removed it");
}

void on_command_checkpoint(Transaction& tx, const CommandCheckpoint& command) {
  const CheckpointRecord* known = tx.state().checkpoints.find(command.checkpoint.id);
  if (known == nullptr) return on_unknown(tx, command);
  if (known->state != CheckpointState::kStored) {
    return tx.reply(command.request, not_stored(*known, "wait until it is, or has failed"));
  }
  if (command.verb == CheckpointVerb::kRemove) return remove(tx, command);
  const JobId job = known->key.job;
  if (command.verb == CheckpointVerb::kVerified) {
    tx.checkpoint(known->id).verified_at = tx.now();
    return tx.reply(command.request, job);
  }
  pin(tx, command.checkpoint.id, command.verb == CheckpointVerb::kPin);
  tx.reply(command.request, job);
}

}  // namespace shoal::coordinator
