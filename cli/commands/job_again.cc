// See job_again.h.
#include "cli/commands/job_again.h"

#include "cli/commands/begin_from.h"
#include "cli/format.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

Result<std::string> text_of_job(const Api& api, const std::string& id) {
  std::string text;
  const auto sink = [&](int, std::string_view bytes) {
    text += bytes;
    return true;
  };
  if (auto got = api.download("/jobs/" + url_escape(id) + "/spec", 0, sink); !got) {
    return got.error();
  }
  return text;
}

bool is_json(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';  // no TOML begins so
}

std::string assignment(const std::string& key, const std::string& text) {
  return key + "=" + Json(text).dump();
}

Result<std::set<std::string>> names_of_jobs(const Api& api) {
  const auto jobs = api.list("/jobs");
  if (!jobs) return jobs.error();
  std::set<std::string> names;
  for (const Json& job : jobs->at("items")) names.insert(text_at(job, "name"));
  return names;
}

Status apply(const AgainOptions& options, const std::string& name, JobFile& file) {
  if (auto named = file.apply_set(assignment("name", name), "--name"); !named) return named;
  for (const std::string& set : options.changes.sets) {
    if (auto done = file.apply_set(set); !done) return done;
  }
  return {};
}

// With the weights alone, or with all that the checkpoint has.
Status begin_again(const Api& api, const std::string& checkpoint, bool weights_only,
                   JobFile& file) {
  const std::string continued = weights_only ? "" : checkpoint;
  const bool written = at_path(file.spec(), "train/continue_from") != nullptr;
  if (!weights_only || written) {
    auto set = file.apply_set(assignment("train.continue_from", continued), "--from");
    if (!set) return set;
  }
  return weights_only ? begin_from(api, checkpoint, file) : Status();
}

Result<int> show_new(const Context& context, const Json& job) {
  if (context.json) return print(job.dump(2) + "\n"), kExitOk;
  const std::string name = text_at(job, "name", text_at(job, "id"));
  print(name + "\n");
  say("Follow it with: shoal job watch " + name);
  return kExitOk;
}

}  // namespace

Result<JobFile> file_of_job(const Api& api, const Json& job) {
  const std::string id = text_at(job, "id");
  const auto text = text_of_job(api, id);
  if (!text) return text.error();
  auto file = JobFile::parse(*text, id + (is_json(*text) ? ".json" : ".toml"), "/", {});
  if (!file) return file.error();
  const std::string read_from = text_at(job, "spec/data/train", "");
  const std::string written = text_at(file->spec(), "data/train", "");
  if (!written.empty() && !read_from.empty() && written != read_from) {
    auto moved = file->apply_set(assignment("data.train", read_from), "its data");
    if (!moved) return moved.error();
  }
  return file;
}

std::string free_name(const std::string& name, const std::set<std::string>& taken) {
  int number = 2;
  while (taken.contains(name + "-" + std::to_string(number))) ++number;
  return name + "-" + std::to_string(number);
}

Result<int> job_clone(const Context& context, const AgainOptions& options) {
  const auto job = context.api.get("/jobs/" + url_escape(options.job));
  if (!job) return job.error();
  auto file = file_of_job(context.api, *job);
  if (!file) return file.error();
  std::string name = options.changes.name;
  if (name.empty()) {
    const auto taken = names_of_jobs(context.api);
    if (!taken) return taken.error();
    name = free_name(text_at(*job, "name"), *taken);
  }
  if (auto done = apply(options, name, *file); !done) return done.error();
  const auto submitted = send_job(context, *file, false);
  if (!submitted) return submitted.error();
  return show_new(context, *submitted);
}

Result<int> job_restart(const Context& context, const AgainOptions& options) {
  const auto job = context.api.get("/jobs/" + url_escape(options.job));
  if (!job) return job.error();
  auto file = file_of_job(context.api, *job);
  if (!file) return file.error();
  const std::string from = options.from.empty() ? text_at(*job, "id") : options.from;
  const auto checkpoint = find_checkpoint(context.api, from);
  if (!checkpoint) return checkpoint.error();
  auto begun = begin_again(context.api, *checkpoint, options.weights_only, *file);
  if (!begun) return begun.error();
  const std::string& name = options.changes.name;
  if (auto done = apply(options, name.empty() ? text_at(*job, "name") : name, *file); !done) {
    return done.error();
  }
  const auto submitted = send_job(context, *file, false);
  if (!submitted) return submitted.error();
  if (!context.json) {
    say(options.weights_only ? "It begins with the weights of " + *checkpoint + ", at step 0."
                             : "It continues " + *checkpoint + ".");
  }
  return show_new(context, *submitted);
}

Result<int> job_rm(const Context& context, const std::string& job) {
  auto removed = context.api.remove("/jobs/" + url_escape(job));
  if (!removed) return removed.error();
  if (context.json) return print(removed->dump(2) + "\n"), kExitOk;
  say("Job " + text_at(*removed, "name", job) +
      " is removed, with its checkpoints and its history.");
  return kExitOk;
}

}  // namespace shoal::cli
