// shoal job …
#include <time.h>

#include "cli/commands/begin_from.h"
#include "cli/commands/commands.h"
#include "cli/commands/dry_run_text.h"
#include "cli/commands/job_text.h"
#include "cli/commands/plan_tables.h"
#include "cli/commands/send_code.h"
#include "cli/commands/watch.h"
#include "cli/format.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

std::string loss_cell(const std::optional<double>& loss) { return loss ? fixed(*loss, 3) : "-"; }

double now_unix_s() { return static_cast<double>(::time(nullptr)); }

// Leaves out what cannot be requested, because the job itself was answered.
void show_job(const Context& context, const Json& job) {
  const auto around = ask_around(context.api, job);
  print(job_text(job, around.ok() ? *around : JobAround(), now_unix_s(), terminal().stdout_color));
}

Result<Json> command_job(const Context& context, const std::string& job, const std::string& verb) {
  return context.api.post("/jobs/" + url_escape(job) + "/" + verb, "", "application/json");
}

Result<int> wait_for(const Context& context, const std::string& job, const std::string& phase,
                     double timeout_s) {
  WatchOptions watching;
  watching.output = context.json ? WatchOutput::kJson : WatchOutput::kPeople;
  watching.timeout_s = timeout_s;
  watching.until = phase;
  auto end = watch_job(context.api, job, watching);
  if (!end) return end.error();
  return text_at(*end, "status/phase") == phase ? kExitOk : outcome_of(*end);
}

// `code`: what is sent before the job; without a name nothing is.
Result<Json> send_with_code(const Context& context, const JobFile& file, const PackedCode& code,
                            bool dry_run) {
  const auto post = [&](bool dry) -> Result<Json> {
    if (!dry && !code.name.empty()) {
      if (auto sent = send_code(context.api, code); !sent) return sent.error();
    }
    const std::string path = "/jobs?folder=" + url_escape(file.folder());
    return context.api.post(path + (dry ? "&dry_run=true" : ""), file.text(), file.media_type(),
                            [&](const std::string& pointer) { return file.locate(pointer); });
  };
  // Agents of a cluster behind another address see other disks; theirs are for the server to judge.
  if (!context.api.is_loopback()) {
    if (dry_run || code.name.empty()) return post(dry_run);
    const auto checked = post(true);  // before anything is sent
    return checked ? post(false) : checked;
  }
  const Status here = file.check_data_is_here();
  auto checked = post(true);
  if (!checked) return here.ok() ? checked : with_refusal(checked.error(), here.error());
  if (!here.ok()) return here.error();
  if (const Status good = file.check_data(*checked); !good.ok()) return good.error();
  return dry_run ? checked : post(false);
}

// Another job has the devices that it waits for, or gets those that it still has.
bool waits_for_priority(const Json& job) {
  const std::string reason = text_at(job, "status/reason");
  return reason == "higher_priority" || reason == "preempted";
}

}  // namespace

Result<Json> send_job(const Context& context, const JobFile& file, bool dry_run) {
  return send_with_code(context, file, {}, dry_run);
}

Result<Json> post_job(const Context& context, const SubmitOptions& options, bool dry_run) {
  auto file = JobFile::load(options.file, options.changes);
  if (!file) return file.error();
  if (!options.from.empty()) {
    if (auto begun = begin_from(context.api, options.from, *file); !begun) return begun.error();
  }
  PackedCode code;
  if (!options.code.empty()) {
    auto packed = pack_code(options.code);
    if (!packed) return packed.error();
    code = std::move(packed).value();
    if (auto named = name_code(code, options.code, *file); !named) return named.error();
  }
  return send_with_code(context, *file, code, dry_run);
}

Result<int> job_validate(const Context& context, const SubmitOptions& options) {
  auto checked = post_job(context, options, true);
  if (!checked) return checked.error();
  if (context.json) return print(checked->dump(2) + "\n"), kExitOk;
  print(estimate_text(*checked));
  if (text_at(*checked, "plan/placeable", "true") != "true") {
    say("It would have to wait: " + text_at(*checked, "plan/detail"));
  }
  say_notes(*checked);
  say("The job " + text_at(*checked, "spec/name") +
      " is valid. Start it with: " + submit_command(options));
  return kExitOk;
}

Result<int> job_submit(const Context& context, const SubmitOptions& options) {
  auto job = post_job(context, options, false);
  if (!job) return job.error();
  const std::string name = text_at(*job, "name", text_at(*job, "id"));
  if (!options.wait) {
    if (context.json) return print(job->dump(2) + "\n"), kExitOk;
    print(name + "\n");
    say("Follow it with: shoal job watch " + name);
    return kExitOk;
  }
  WatchOptions watching;
  watching.output = WatchOutput::kMessages;
  watching.timeout_s = options.timeout_s;
  auto end = watch_job(context.api, text_at(*job, "id", name), watching);
  if (!end) return end.error();
  if (context.json) {
    print(end->dump(2) + "\n");
  } else {
    show_job(context, *end);
  }
  return outcome_of(*end);
}

Result<int> job_ls(const Context& context, const std::string& search) {
  auto jobs = context.api.list(search.empty() ? "/jobs" : "/jobs?search=" + url_escape(search));
  if (!jobs) return jobs.error();
  if (context.json) return print(jobs->dump(2) + "\n"), kExitOk;
  Table table(
      {"NAME", "PHASE", ">PRIORITY", ">ROUND", ">STEP", ">TRAIN", ">VALIDATION", "CREATED", "ID"});
  const double now = now_unix_s();
  for (const Json& job : jobs->at("items")) {
    const JobProgress progress = read_progress(job);
    table.add({progress.name,
               {progress.phase, color_of_state(progress.phase)},
               text_at(job, "status/priority"),
               rounds_cell(progress),
               fixed(progress.step, 0) + "/" + fixed(progress.steps, 0),
               loss_cell(progress.train_loss),
               loss_cell(progress.validation_loss),
               human_age(text_at(job, "created_at"), now),
               progress.id});
  }
  if (table.empty() && search.empty()) {
    say("No jobs yet. Start one with: shoal job submit examples/kjv.toml");
  } else if (table.empty()) {
    say("No job has \"" + search + "\" in its name or description.");
  }
  print(table.render(terminal().stdout_color));
  for (const Json& job : jobs->at("items")) {
    if (waits_for_priority(job)) say(text_at(job, "name") + ": " + text_at(job, "status/detail"));
  }
  return kExitOk;
}

Result<int> job_get(const Context& context, const std::string& job, bool why) {
  auto found = context.api.get("/jobs/" + url_escape(job));
  if (!found) return found.error();
  if (why) {
    auto placement = context.api.get("/jobs/" + url_escape(job) + "/placement");
    if (!placement) return placement.error();
    (*found)["placement"] = std::move(*placement);
  }
  if (context.json) return print(found->dump(2) + "\n"), kExitOk;
  show_job(context, *found);
  if (!why) return kExitOk;
  const std::string text = placement_text(found->at("placement"), now_unix_s());
  print(text);
  if (text.empty()) say("Nothing is known of its placement yet: it does not train.");
  return kExitOk;
}

Result<int> job_spec(const Context& context, const std::string& job) {
  std::string text;
  const auto sink = [&](int, std::string_view bytes) {
    text += bytes;
    return true;
  };
  if (auto got = context.api.download("/jobs/" + url_escape(job) + "/spec", 0, sink); !got) {
    return got.error();
  }
  return print(text), kExitOk;
}

Result<int> job_watch(const Context& context, const std::string& job, double timeout_s) {
  WatchOptions watching;
  watching.output = context.json ? WatchOutput::kJson : WatchOutput::kPeople;
  watching.timeout_s = timeout_s;
  auto end = watch_job(context.api, job, watching);
  if (!end) return end.error();
  return outcome_of(*end);
}

Result<int> job_set(const Context& context, const std::string& job, const JobChanges& changes) {
  if (!changes.outer_lr && !changes.priority) {
    return Error{Code::kInvalidArgument, "nothing is to be changed", "",
                 "give --outer-lr X, --priority N, or both"};
  }
  Json change = Json::object();
  if (changes.outer_lr) change["outer_lr"] = *changes.outer_lr;
  if (changes.priority) change["priority"] = *changes.priority;
  auto changed = context.api.patch("/jobs/" + url_escape(job), change);
  if (!changed) return changed.error();
  if (context.json) return print(changed->dump(2) + "\n"), kExitOk;
  const std::string name = "Job " + text_at(*changed, "name", job);
  if (changes.outer_lr) {
    say(name + ": outer learning rate " + text_at(*changed, "status/outer_lr") +
        " from the next round that is frozen.");
  }
  if (changes.priority) say(name + ": priority " + text_at(*changed, "status/priority") + ".");
  return kExitOk;
}

Result<int> job_pause(const Context& context, const std::string& job, const WaitOptions& options) {
  auto answer = command_job(context, job, "pause");
  if (!answer) return answer.error();
  if (options.wait) return wait_for(context, job, "paused", options.timeout_s);
  if (context.json) return print(answer->dump(2) + "\n"), kExitOk;
  const bool paused = text_at(*answer, "status/phase") == "paused";
  say("Job " + text_at(*answer, "name", job) +
      (paused ? " is paused." : " will be paused when its round is committed and stored."));
  return kExitOk;
}

Result<int> job_resume(const Context& context, const std::string& job, const WaitOptions& options) {
  auto answer = command_job(context, job, "resume");
  if (!answer) return answer.error();
  if (options.wait) return wait_for(context, job, "training", options.timeout_s);
  if (context.json) return print(answer->dump(2) + "\n"), kExitOk;
  say("Job " + text_at(*answer, "name", job) + " continues.");
  return kExitOk;
}

Result<int> job_cancel(const Context& context, const std::string& job) {
  const auto before = context.api.get("/jobs/" + url_escape(job));
  if (!before) return before.error();
  auto cancelled = command_job(context, job, "cancel");
  if (!cancelled) return cancelled.error();
  if (context.json) return print(cancelled->dump(2) + "\n"), kExitOk;
  const bool over = text_at(*before, "status/phase") == "cancelled";
  say("Job " + text_at(*cancelled, "name", job) +
      (over ? " was already cancelled; nothing has changed." : " is cancelled."));
  return kExitOk;
}

}  // namespace shoal::cli
