#include "coordinator/core/job_commands.h"

#include <charconv>
#include <optional>

#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/releases.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"
#include "job/job_options.h"

namespace shoal::coordinator {
namespace {

std::vector<FieldError> refused_fields(const Turn& turn, const JobSpec& spec) {
  auto fields = validate(options_of(spec));
  if (!fields.empty()) return fields;
  const std::string why = why_no_device_fits(turn, with_derived_fields(spec));
  if (!why.empty()) fields.push_back({"/model", why});
  return fields;
}

// Why a job that is as it should be cannot be taken beside those that are live.
std::optional<Error> no_place_for(const Turn& turn, const JobSpec& spec) {
  if (const JobRecord* other = live_job_by_name(turn.state(), spec.name)) {
    return Error{Code::kConflict,
                 "job " + to_string(other->id) + " named " + spec.name + " is still " +
                     to_string(other->phase),
                 "/name", "choose another name, or cancel that job first"};
  }
  if (static_cast<std::int64_t>(turn.state().timers.size()) >= turn.options().jobs_max) {
    return Error{Code::kResourceExhausted, "too many live jobs", "",
                 "wait for one to end, or cancel one"};
  }
  return std::nullopt;
}

JobId accept(Turn& turn, const SubmitJob& command, const JobSpec& spec) {
  JobRecord record;
  record.id = JobId(turn.counters().next_job++);
  record.spec = spec;
  record.outer_lr = spec.sync.outer().lr;
  record.created_at = turn.now();
  const JobId id = turn.add(std::move(record)).id;
  if (!command.submitted.text.empty()) {
    turn.keep({id, command.submitted.media_type, command.submitted.text});
  }
  turn.volatile_state().timers.put(id, {});
  turn.event(Severity::kInfo, event_kind::kJobSubmitted, {.job = id},
             "job " + spec.name + " submitted as " + to_string(id));
  return id;
}

// The same rules as for the field of a spec.
std::vector<FieldError> refused_outer_lr(const JobSpec& spec, double outer_lr) {
  if (spec.sync.algorithm() == SyncAlgorithm::kNone) {
    return {{"/outer_lr", "cannot be set with sync.algorithm = 'none', which has no outer step"}};
  }
  JobOptions changed = options_of(spec);
  changed.sync.outer.lr = outer_lr;
  for (const FieldError& broken : validate(changed)) {
    if (broken.pointer == "/sync/outer/lr") return {{"/outer_lr", broken.detail}};
  }
  return {};
}

// Null, and answered: there is no such job, or it has ended.
const JobRecord* live_job(Turn& turn, RequestId request, JobId id, const char* hint) {
  const JobRecord* job = turn.state().jobs.find(id);
  if (job == nullptr) {
    turn.reply(request, Error{Code::kNotFound, "there is no " + to_string(id), "job", ""});
    return nullptr;
  }
  if (!is_terminal(job->phase)) return job;
  turn.reply(request,
             Error{Code::kConflict,
                   "job " + job->spec.name + " is already " + to_string(job->phase), "job", hint});
  return nullptr;
}

// Nothing of it is under way that a checkpoint does not have already.
bool pauses_at_once(const State& state, const JobRecord& job) {
  const bool begins = job.phase == JobPhase::kQueued || job.phase == JobPhase::kGathering ||
                      job.phase == JobPhase::kWarming;
  return job.committed_round == 0 || (begins && checkpoint_of_committed(state, job) != nullptr);
}

void say_changed(Turn& turn, JobId id, const std::string& what) {
  turn.event(Severity::kInfo, event_kind::kJobChanged, {.job = id}, what);
}

// A replica that trains behind its boundary is ahead of an order that begins there: it is let go.
bool goes_on_at_once(const JobRecord& job) {
  return job.phase == JobPhase::kSealing && !is_trained(job) &&
         job.spec.sync.overlap_steps() == Steps(0);
}

std::string short_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

}  // namespace

void on_submit(Turn& turn, const SubmitJob& command) {
  auto fields = refused_fields(turn, command.spec);
  if (!fields.empty()) {
    const Error error{Code::kValidation, "the job is not accepted", fields.front().pointer, ""};
    return turn.reply(command.request, error, std::move(fields));
  }
  const JobSpec spec = with_derived_fields(command.spec);
  if (auto error = no_place_for(turn, spec)) return turn.reply(command.request, *error);
  if (command.dry_run) return turn.reply_plan(command.request, plan_job(turn, spec));
  turn.reply(command.request, accept(turn, command, spec));
}

void on_cancel(Turn& turn, const CancelJob& command) {
  const JobRecord* job = turn.state().jobs.find(command.job);
  if (job == nullptr) {
    return turn.reply(command.request,
                      Error{Code::kNotFound, "there is no " + to_string(command.job), "job", ""});
  }
  if (is_terminal(job->phase) && job->phase != JobPhase::kCancelled) {
    return turn.reply(
        command.request,
        Error{Code::kConflict, "job " + job->spec.name + " is already " + to_string(job->phase),
              "job", ""});
  }
  if (!is_terminal(job->phase)) {
    turn.job(command.job).desired = JobDesired::kCancel;
    finish_job(turn, command.job, JobPhase::kCancelled, JobReason::kCancelledByUser);
  }
  turn.reply(command.request, command.job);
}

void on_pause(Turn& turn, const PauseJob& command) {
  const JobRecord* job =
      live_job(turn, command.request, command.job, "only a job that has not ended can be paused");
  if (job == nullptr) return;
  if (job->desired == JobDesired::kRun) {
    say_changed(turn, command.job, "job " + job->spec.name + " is to pause");
    turn.job(command.job).desired = JobDesired::kPause;
    if (pauses_at_once(turn.state(), *job) && !turn.state().restoring.contains(command.job)) {
      pause_job(turn, command.job);
    } else if (job->phase == JobPhase::kTraining) {
      set_reason(turn, command.job, JobReason::kPausing,
                 "round " + std::to_string(next_key(*job).round) + " is finished first");
    }
  }
  turn.reply(command.request, command.job);
}

void on_resume(Turn& turn, const ResumeJob& command) {
  const JobRecord* job =
      live_job(turn, command.request, command.job, "only a job that has not ended can go on");
  if (job == nullptr) return;
  if (job->desired == JobDesired::kPause) {
    say_changed(turn, command.job, "job " + job->spec.name + " is to go on");
    turn.job(command.job).desired = JobDesired::kRun;
    if (job->phase == JobPhase::kPaused) {
      queue_again(turn, command.job);
    } else if (job->phase == JobPhase::kTraining) {
      set_reason(turn, command.job, JobReason::kRunning);
    } else if (goes_on_at_once(*job)) {
      transition(turn, command.job, JobPhase::kTraining, JobReason::kRunning);
    }
  }
  turn.reply(command.request, command.job);
}

void on_change(Turn& turn, const ChangeJob& command) {
  const JobRecord* job =
      live_job(turn, command.request, command.job, "only a job that runs can be changed");
  if (job == nullptr) return;
  auto fields = refused_outer_lr(job->spec, command.outer_lr);
  if (!fields.empty()) {
    const Error error{Code::kValidation, "the change is not accepted", fields.front().pointer, ""};
    return turn.reply(command.request, error, std::move(fields));
  }
  if (job->outer_lr != command.outer_lr) {
    const double before = job->outer_lr;
    turn.job(command.job).outer_lr = command.outer_lr;
    say_changed(turn, command.job,
                "outer learning rate " + short_text(before) + " -> " +
                    short_text(command.outer_lr) + " from the next round that is sealed");
  }
  turn.reply(command.request, command.job);
}

}  // namespace shoal::coordinator
