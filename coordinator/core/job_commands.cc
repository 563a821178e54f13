#include "coordinator/core/job_commands.h"

#include <array>
#include <charconv>
#include <optional>

#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/continuing.h"
#include "coordinator/core/object_access.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/releases.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"
#include "job/data_rules.h"
#include "job/job_rules.h"
#include "job/model_match.h"

namespace shoal::coordinator {
namespace {

// Replicas of one stage are on as many devices.
std::vector<FieldError> refused_by_quota(const Transaction& tx, const JobSpec& spec,
                                         const std::string& owner) {
  const std::int64_t quota = tx.options().quotas.of_owner(owner);
  if (quota == 0 || spec.swarm.min_replicas <= quota) return {};
  return {{"/swarm/min_replicas", "must be at most " + std::to_string(quota) +
                                      ", the devices that the jobs of " + owner +
                                      " may hold, got " + std::to_string(spec.swarm.min_replicas)}};
}

// If the model begins from a checkpoint, that must be of such a model. It is stored
// (refused_checkpoints()).
std::vector<FieldError> refused_weights(const Transaction& tx, const ModelSpec& model) {
  const auto id = checkpoint_of_weights(model.init);
  if (!id) return {};
  const JobRecord* from = tx.state().jobs.find(tx.state().checkpoints.at(*id).key.job);
  if (from == nullptr) return {};  // the replica that loads it compares
  const auto found = differences(model, with_derived_fields(from->spec).model);
  if (found.empty()) return {};
  return {{"/model/init", model.init + " holds another model: " + text_of(found) +
                              "; set these fields as they are there"}};
}

std::string text_of(const ProgramRefusal& refusal, const TrainerSpec& runs) {
  const std::string option = "`shoal-agent " + refusal.option + "`";
  if (runs.code.empty()) {
    return "no code comes with the job (send the folder of " + runs.entry +
           " with it: --code FOLDER), and no agent of this cluster runs programs of its host (" +
           option + ")";
  }
  return "no agent of this cluster runs " + refusal.what + "; an operator allows it with " + option;
}

// What depends on the cluster; the spec by itself is valid (proto/job_spec_text.h).
std::vector<FieldError> refused_fields(const Transaction& tx, const JobSpec& spec,
                                       const ObjectUser& submitter) {
  const std::string& owner = submitter.name;
  auto fields = refused_by_quota(tx, spec, owner);
  if (fields.empty()) fields = refused_checkpoints(tx.state(), {&submitter, 1}, spec);
  if (!fields.empty()) return fields;
  const JobSpec full = with_derived_fields(spec);
  fields = full.train.continue_from.empty() ? refused_weights(tx, full.model)
                                            : refused_continuation(tx.state(), full);
  if (!fields.empty()) return fields;
  if (const auto refusal = why_no_agent_runs(tx, full, owner)) {
    return {{refusal->pointer, text_of(*refusal, full.trainer)}};
  }
  const std::string why = why_no_device_fits(tx, full);
  if (!why.empty()) fields.push_back({"/model", why});
  return fields;
}

// Empty: the name is free.
std::string why_name_taken(const Transaction& tx, const JobSpec& spec) {
  const JobRecord* other = live_job_by_name(tx.state(), spec.name);
  if (other == nullptr) return {};
  return "job " + to_string(other->id) + " named " + spec.name + " is still " +
         to_string(other->phase);
}

// Why a valid job cannot be accepted beside the live jobs; none: it can.
std::optional<Error> no_place_for(const Transaction& tx, const JobSpec& spec) {
  if (const std::string taken = why_name_taken(tx, spec); !taken.empty()) {
    return Error{Code::kConflict, taken, "/name", "choose another name, or cancel that job first"};
  }
  if (static_cast<std::int64_t>(tx.state().timers.size()) >= tx.options().jobs_max) {
    return Error{Code::kResourceExhausted, "too many live jobs", "",
                 "wait for one to end, or cancel one"};
  }
  return std::nullopt;
}

JobId accept(Transaction& tx, const SubmitJob& command, const JobSpec& spec) {
  JobRecord record;
  record.id = JobId(tx.counters().next_job++);
  record.spec = spec;
  record.outer_lr = spec.sync.outer.lr;
  record.priority = spec.swarm.priority;
  record.created_at = tx.now();
  record.owner = command.owner;
  record.lease_unit = command.lease_unit;
  std::string from;
  if (!spec.train.continue_from.empty()) from = stand_at_continued(tx.state(), record);
  const JobId id = tx.add(std::move(record)).id;
  if (!command.submitted.text.empty()) {
    tx.keep({id, command.submitted.media_type, command.submitted.text});
  }
  tx.volatile_state().timers.put(id, {});
  tx.event(Severity::kInfo, event_kind::kJobSubmitted, {.job = id},
           "job " + spec.name + " submitted as " + to_string(id) + from);
  return id;
}

// The same rules as for the fields of a spec.
std::vector<FieldError> refused_change(const JobSpec& spec, const ChangeJob& command) {
  if (command.outer_lr && spec.sync.algorithm == SyncAlgorithm::kNone) {
    return {{"/outer_lr", "cannot be set with sync.algorithm = 'none', which has no outer step"}};
  }
  JobSpec changed = spec;
  if (command.outer_lr) changed.sync.outer.lr = *command.outer_lr;
  if (command.priority) changed.swarm.priority = *command.priority;
  std::vector<FieldError> refused;
  for (const FieldError& broken : validate(changed)) {
    if (broken.pointer == "/sync/outer/lr") refused.push_back({"/outer_lr", broken.detail});
    if (broken.pointer == "/swarm/priority") refused.push_back({"/priority", broken.detail});
  }
  return refused;
}

// Null, and answered: there is no such job, or it has ended.
const JobRecord* live_job(Transaction& tx, RequestId request, JobId id, const char* hint) {
  const JobRecord* job = tx.state().jobs.find(id);
  if (job == nullptr) {
    tx.reply(request, Error{Code::kNotFound, "there is no " + to_string(id), "job",
                            "`shoal job ls` lists the jobs"});
    return nullptr;
  }
  if (!is_terminal(job->phase)) return job;
  tx.reply(request,
           Error{Code::kConflict, "job " + job->spec.name + " is already " + to_string(job->phase),
                 "job", hint});
  return nullptr;
}

void say_changed(Transaction& tx, JobId id, const std::string& what) {
  tx.event(Severity::kInfo, event_kind::kJobChanged, {.job = id}, what);
}

// Whether a job that is resumed while it pauses can continue at once. With sync.overlap_steps its
// replicas are ahead of an order that begins at the boundary, so they have to be released.
bool goes_on_at_once(const JobRecord& job) {
  return job.phase == JobPhase::kFinalizing && !is_trained(job) && !is_to_let_go(job) &&
         job.spec.sync.overlap_steps == Steps(0);
}

// A job that has nothing of its own yet begins from the checkpoints that it names. They are
// authorized again, because the job may be older than the rule, or the token of its owner may have
// been wider. A resume by a person who may use them is that person's grant.
bool refuse_to_begin(Transaction& tx, const JobRecord& job, const ResumeJob& command) {
  if (job.phase != JobPhase::kPaused || job.committed_step > job.begun_step) return false;
  const std::array users{ObjectUser{.name = job.owner}, command.by};
  auto fields = refused_checkpoints(tx.state(), users, job.spec);
  if (fields.empty()) return false;
  const Error error{Code::kValidation, "the job cannot continue", fields.front().pointer,
                    "submit it with a checkpoint of your own jobs, or let an admin resume it"};
  tx.reply(command.request, error, std::move(fields),
           forbidden_checkpoints(tx.state(), users, job.spec));
  return true;
}

std::string short_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

}  // namespace

void on_submit(Transaction& tx, const SubmitJob& command) {
  const ObjectUser submitter{.name = command.owner, .checkpoints = command.checkpoints};
  tx.volatile_state().planned_at = tx.now();  // to see whether devices fit, and for a dry run
  auto fields = refused_fields(tx, command.spec, submitter);
  if (!fields.empty()) {
    // The answer names every field that has to change, the name included.
    const std::string taken = why_name_taken(tx, command.spec);
    if (!taken.empty()) fields.push_back({"/name", taken});
    const Error error{Code::kValidation, "the job is not accepted", fields.front().pointer, ""};
    return tx.reply(command.request, error, std::move(fields),
                    forbidden_checkpoints(tx.state(), {&submitter, 1}, command.spec));
  }
  const JobSpec spec = with_derived_fields(command.spec);
  // A dry run judges the job, not what stands in its way now.
  if (command.dry_run) return tx.reply_plan(command.request, plan_job(tx, spec, command.owner));
  if (auto error = no_place_for(tx, spec)) return tx.reply(command.request, *error);
  tx.reply(command.request, accept(tx, command, spec));
}

void on_cancel(Transaction& tx, const CancelJob& command) {
  const JobRecord* job = tx.state().jobs.find(command.job);
  if (job == nullptr) {
    return tx.reply(command.request, Error{Code::kNotFound, "there is no " + to_string(command.job),
                                           "job", "`shoal job ls` lists the jobs"});
  }
  if (is_terminal(job->phase) && job->phase != JobPhase::kCancelled) {
    return tx.reply(
        command.request,
        Error{Code::kConflict, "job " + job->spec.name + " is already " + to_string(job->phase),
              "job", ""});
  }
  if (!is_terminal(job->phase)) {
    tx.job(command.job).desired = JobDesired::kCancel;
    finish_job(tx, command.job, JobPhase::kCancelled, JobReason::kCancelledByUser);
  }
  tx.reply(command.request, command.job);
}

void on_pause(Transaction& tx, const PauseJob& command) {
  const JobRecord* job =
      live_job(tx, command.request, command.job, "only a job that has not ended can be paused");
  if (job == nullptr) return;
  if (job->desired == JobDesired::kRun) {
    say_changed(tx, command.job, "job " + job->spec.name + " was asked to pause");
    tx.job(command.job).desired = JobDesired::kPause;
    if (pauses_at_once(tx.state(), *job) && !tx.state().restoring.contains(command.job)) {
      pause_job(tx, command.job);
    } else if (job->phase == JobPhase::kTraining) {
      set_reason(tx, command.job, JobReason::kPausing,
                 "round " + std::to_string(next_key(*job).round) + " is finished first");
    }
  }
  tx.reply(command.request, command.job);
}

void on_resume(Transaction& tx, const ResumeJob& command) {
  const JobRecord* job =
      live_job(tx, command.request, command.job, "only a job that has not ended can continue");
  if (job == nullptr) return;
  if (refuse_to_begin(tx, *job, command)) return;
  if (job->desired == JobDesired::kPause) {
    say_changed(tx, command.job, "job " + job->spec.name + " was asked to continue");
    tx.job(command.job).desired = JobDesired::kRun;
    if (job->phase == JobPhase::kPaused) {
      queue_again(tx, command.job);
    } else if (job->phase == JobPhase::kTraining && !is_to_let_go(*job)) {
      set_reason(tx, command.job, JobReason::kRunning);
    } else if (goes_on_at_once(*job)) {
      transition(tx, command.job, JobPhase::kTraining, JobReason::kRunning);
    }
  }
  tx.reply(command.request, command.job);
}

void on_change(Transaction& tx, const ChangeJob& command) {
  const JobRecord* job =
      live_job(tx, command.request, command.job, "only a job that runs can be changed");
  if (job == nullptr) return;
  auto fields = refused_change(job->spec, command);
  if (!fields.empty()) {
    const Error error{Code::kValidation, "the change is not accepted", fields.front().pointer, ""};
    return tx.reply(command.request, error, std::move(fields));
  }
  if (command.outer_lr && job->outer_lr != *command.outer_lr) {
    const double before = job->outer_lr;
    tx.job(command.job).outer_lr = *command.outer_lr;
    say_changed(tx, command.job,
                "outer learning rate " + short_text(before) + " -> " +
                    short_text(*command.outer_lr) + " from the next round that is frozen");
  }
  if (command.priority && job->priority != *command.priority) {
    const std::int64_t before = job->priority;
    tx.job(command.job).priority = *command.priority;
    say_changed(tx, command.job,
                "priority " + std::to_string(before) + " -> " + std::to_string(*command.priority));
  }
  tx.reply(command.request, command.job);
}

}  // namespace shoal::coordinator
