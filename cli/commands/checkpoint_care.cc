// shoal checkpoint ls, pin, unpin, verify, rm: which there are, which stay, whether they are whole.
#include <cstdio>

#include <time.h>

#include "base/number_text.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

bool is_set(const Json& object, const char* field) {
  const Json* value = at_path(object, field);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

std::string kind_of(const Json& checkpoint) {
  return std::string(is_set(checkpoint, "final") ? "final" : "resume") +
         (is_set(checkpoint, "pinned") ? ", pinned" : "");
}

std::string path_of(const std::string& checkpoint) {
  return "/checkpoints/" + url_escape(checkpoint);
}

// One question for each file: each has an answer in time.
Result<Json> verify_file(const Api& api, const std::string& checkpoint, const std::string& file) {
  return api.post(path_of(checkpoint) + "/verify?file=" + url_escape(file), "", "application/json");
}

void show_reading(const std::string& file) {
  if (terminal().stderr_is_tty) std::fprintf(stderr, "\r\033[Kreading %s", file.c_str());
}

void show_verified(const Json& verified) {
  Table table({"FILE", ">SIZE", "VERIFIED"});
  for (const Json& file : verified.at("files")) {
    const bool good = is_set(file, "ok");
    table.add(
        {text_at(file, "path"),
         size_text(number_at(file, "size")),
         {good ? "as recorded" : text_at(file, "problem"), good ? Color::kGreen : Color::kRed}});
  }
  if (terminal().stderr_is_tty) std::fputs("\r\033[K", stderr);
  print(table.render(terminal().stdout_color));
}

Result<int> change_pin(const Context& context, const std::string& checkpoint, const char* verb,
                       const char* said) {
  auto changed = context.api.post(path_of(checkpoint) + "/" + verb, "", "application/json");
  if (!changed) return changed.error();
  if (context.json) return print(changed->dump(2) + "\n"), kExitOk;
  say(text_at(*changed, "id", checkpoint) + said);
  return kExitOk;
}

}  // namespace

Result<int> checkpoint_ls(const Context& context, const std::string& job) {
  auto checkpoints = context.api.list(job.empty() ? std::string("/checkpoints")
                                                  : "/jobs/" + url_escape(job) + "/checkpoints");
  if (!checkpoints) return checkpoints.error();
  if (context.json) return print(checkpoints->dump(2) + "\n"), kExitOk;
  Table table({"ID", "JOB", "OWNER", ">ROUND", ">STEP", "STATE", "KIND", ">SIZE", "WRITTEN"});
  const auto now = static_cast<double>(::time(nullptr));
  double total = 0;
  for (const Json& checkpoint : checkpoints->at("items")) {
    const std::string state = text_at(checkpoint, "state");
    const double size = state == "deleted" ? 0 : number_at(checkpoint, "bytes");
    total += size;
    const std::string name = text_at(checkpoint, "job_name", "");
    table.add({text_at(checkpoint, "id"),
               name.empty() ? text_at(checkpoint, "job") : name,
               text_at(checkpoint, "owner"),
               text_at(checkpoint, "round"),
               text_at(checkpoint, "step"),
               {state, color_of_state(state)},
               kind_of(checkpoint),
               size_text(size),
               human_age(text_at(checkpoint, "updated_at"), now)});
  }
  if (table.empty()) say("No checkpoints yet.");
  print(table.render(terminal().stdout_color));
  if (!table.empty()) say("They take " + size_text(total) + ".");
  return kExitOk;
}

Result<int> checkpoint_pin(const Context& context, const std::string& checkpoint) {
  return change_pin(context, checkpoint, "pin", " is pinned: no rule deletes it.");
}

Result<int> checkpoint_unpin(const Context& context, const std::string& checkpoint) {
  return change_pin(context, checkpoint, "unpin", " is not pinned: the rules decide about it.");
}

Result<int> checkpoint_verify(const Context& context, const std::string& checkpoint_or_job) {
  const auto id = find_checkpoint(context.api, checkpoint_or_job);
  if (!id) return id.error();
  const auto checkpoint = context.api.get(path_of(*id));
  if (!checkpoint) return checkpoint.error();
  Json verified{{"checkpoint", *id}, {"ok", true}, {"files", Json::array()}};
  const Json* files = at_path(*checkpoint, "files");
  for (const Json& file : files == nullptr ? Json::array() : *files) {
    show_reading(text_at(file, "path"));
    const auto answer = verify_file(context.api, *id, text_at(file, "path", ""));
    if (!answer) return answer.error();
    for (const Json& one : answer->at("files")) verified["files"].push_back(one);
    if (!is_set(*answer, "ok")) verified["ok"] = false;
  }
  const bool good = is_set(verified, "ok");
  if (context.json) return print(verified.dump(2) + "\n"), good ? kExitOk : kExitFailure;
  show_verified(verified);
  say(*id + (good ? ": every file is as recorded." : " is damaged: use another checkpoint."));
  return good ? kExitOk : kExitFailure;
}

Result<int> checkpoint_rm(const Context& context, const std::string& checkpoint, bool force) {
  auto removed = context.api.remove(path_of(checkpoint) + (force ? "?force=true" : ""));
  if (!removed) return removed.error();
  if (context.json) return print(removed->dump(2) + "\n"), kExitOk;
  say(text_at(*removed, "id", checkpoint) + " is deleted, " +
      size_text(number_at(*removed, "bytes")) + ".");
  return kExitOk;
}

}  // namespace shoal::cli
