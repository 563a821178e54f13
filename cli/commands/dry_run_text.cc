#include "cli/commands/dry_run_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/number_text.h"
#include "cli/format.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

// A replica of a job in stages holds only one stage.
std::string memory_text(const Json& dry_run) {
  const Json* stages = at_path(dry_run, "plan/stages");
  double most = number_at(dry_run, "estimate/training_memory_bytes");
  const bool cut = stages != nullptr && stages->is_array() && stages->size() > 1;
  if (!cut) return size_text(most) + " per replica";
  most = 0;
  for (const Json& stage : *stages) most = std::max(most, number_at(stage, "memory_bytes"));
  return size_text(most) + " per replica of the largest stage";
}

// As a shell takes it; quoted only where it must be.
std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-_./=,:+@%").find(c) != std::string_view::npos;
  });
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// A program knows the size of its model itself; [model] describes it only when it is cut into
// stages.
bool size_is_known(const Json& dry_run) {
  return text_at(dry_run, "spec/trainer/kind") != "python" ||
         number_at(dry_run, "spec/swarm/stages") > 1;
}

}  // namespace

std::string estimate_text(const Json& dry_run) {
  const std::string size = "parameters       " +
                           human_count(number_at(dry_run, "estimate/parameters")) +
                           "\ntraining memory  " + memory_text(dry_run) + "\n";
  return (size_is_known(dry_run) ? size : "") + "rounds           " +
         text_at(dry_run, "estimate/rounds", "unknown until it ends") + "\n";
}

std::vector<std::string> notes_of(const Json& dry_run) {
  std::vector<std::string> notes;
  const Json* list = at_path(dry_run, "notes");
  if (list == nullptr || !list->is_array()) return notes;
  for (const Json& note : *list) {
    if (note.is_string()) notes.push_back(note.get<std::string>());
  }
  return notes;
}

void say_notes(const Json& dry_run) {
  for (const std::string& note : notes_of(dry_run)) {
    say(paint("note: ", Color::kYellow, terminal().stderr_color) + note);
  }
}

std::string submit_command(const SubmitOptions& options) {
  std::string command = "shoal job submit " + shell_word(options.file);
  if (!options.changes.name.empty()) command += " --name " + shell_word(options.changes.name);
  for (const std::string& set : options.changes.sets) command += " --set " + shell_word(set);
  if (!options.from.empty()) command += " --from " + shell_word(options.from);
  if (!options.code.empty()) command += " --code " + shell_word(options.code);
  return command;
}

}  // namespace shoal::cli
