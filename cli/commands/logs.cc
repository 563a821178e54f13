// shoal logs: what agents and trainers print, of one job or of one agent.
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

constexpr double kFollowEveryS = 1, kSilentMaxS = 120;

void show_line(const Json& line, bool json) {
  if (json) return print(line.dump() + "\n");
  const std::string level = text_at(line, "level");
  const std::string padded = level + std::string(level.size() < 7 ? 7 - level.size() : 0, ' ');
  const std::string replica = text_at(line, "replica", "");
  print(text_at(line, "at") + "  " +
        paint(padded, level == "info" || level == "debug" ? Color::kNone : color_of_state(level),
              terminal().stdout_color) +
        "  " + text_at(line, "agent_name") + " " + text_at(line, "source") +
        (replica.empty() ? "" : " " + replica) + "  " + text_at(line, "text", "") + "\n");
}

// Warns once each time that an agent stops answering: no lines from it does not mean that all is
// well.
void show_missing(const Json& page, std::string& told) {
  std::string silent;
  if (const Json* missing = at_path(page, "missing"); missing && missing->is_array()) {
    for (const Json& one : *missing) {
      silent += (silent.empty() ? "" : ", ") + text_at(one, "agent_name") + " (" +
                text_at(one, "problem") + ")";
    }
  }
  if (silent != told && !silent.empty()) say("warning: no lines from " + silent);
  told = silent;
}

std::string path_of(const LogsOptions& options) {
  std::string path = options.job.empty() ? "/agents/" + url_escape(options.agent)
                                         : "/jobs/" + url_escape(options.job);
  path += "/logs?tail=" + std::to_string(options.tail);
  if (!options.level.empty()) path += "&level=" + url_escape(options.level);
  if (!options.replica.empty()) path += "&replica=" + url_escape(options.replica);
  if (!options.text.empty()) path += "&q=" + url_escape(options.text);
  return path;
}

}  // namespace

Result<int> logs(const Context& context, const LogsOptions& options) {
  if (options.job.empty() && options.agent.empty()) {
    return Error{Code::kInvalidArgument, "no job or agent is named", "",
                 "give a JOB, or an agent with --agent"};
  }
  const std::string path = path_of(options);
  std::string cursor, told;
  if (options.follow) catch_interrupts();
  for (double silent_s = 0; !interrupted();) {
    auto page = context.api.get(cursor.empty() ? path : path + "&cursor=" + url_escape(cursor));
    const bool later = !page.ok() && options.follow && !cursor.empty() &&
                       page.error().code == Code::kUnavailable && silent_s < kSilentMaxS;
    if (!page.ok() && !later) return page.error();
    bool full = false;
    if (page.ok()) {
      silent_s = 0;
      show_missing(*page, told);
      for (const Json& line : page->at("items")) show_line(line, context.json);
      full = !cursor.empty() && static_cast<int>(page->at("items").size()) >= options.tail;
      cursor = text_at(*page, "next_cursor", "");
    }
    if (!options.follow) return kExitOk;
    if (!full && !pause_for(kFollowEveryS)) break;
    silent_s += kFollowEveryS;
  }
  return kExitInterrupted;
}

}  // namespace shoal::cli
