// What a shell offers when TAB is pressed: `shoal completion SHELL` prints a short script, and the
// script asks the binary itself (`shoal __complete WORD…`), so that commands, options and the names
// of jobs and agents are never of another version. Pure functions of the tree of commands; asking
// for names is main.cc's part. Where nothing is offered the shell takes file names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace shoal::cli {

enum class NamesOf { kNothing, kJobs, kAgents };

struct Candidates {
  std::vector<std::string> words;        // that begin with what was typed
  NamesOf names_of = NamesOf::kNothing;  // whose names may stand there, too
};

// `words`: the line after the program's name; the last one is what is being typed and may be empty.
Candidates complete(const CLI::App& tree, const std::vector<std::string>& words);

// For bash, zsh or fish, to be read by that shell; nothing for any other.
std::optional<std::string> completion_script(const std::string& shell);

}  // namespace shoal::cli
