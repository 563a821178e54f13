#include "cli/command_words.h"

#include <algorithm>
#include <utility>

#include "cli/format.h"

namespace shoal::cli {
namespace {

// As docker, kubectl, systemctl and git call it.
constexpr std::pair<const char*, const char*> kElsewhere[] = {
    {"list", "ls"},        {"show", "get"},
    {"describe", "get"},   {"status", "get"},
    {"info", "get"},       {"inspect", "get"},
    {"delete", "cancel"},  {"remove", "cancel"},
    {"rm", "cancel"},      {"stop", "cancel"},
    {"kill", "cancel"},    {"start", "submit"},
    {"run", "submit"},     {"create", "submit"},
    {"new", "submit"},     {"apply", "submit"},
    {"check", "validate"}, {"follow", "watch"},
    {"wait", "watch"},     {"continue", "resume"},
    {"unpause", "resume"}, {"get", "download"},
    {"fetch", "download"}, {"stop", "down"},
    {"start", "up"},       {"log", "logs"},
    {"jobs", "job"},       {"agents", "agent"},
    {"nodes", "agent"},    {"node", "agent"},
    {"rounds", "round"},   {"checkpoints", "checkpoint"},
    {"delete", "rm"},      {"remove", "rm"},
};

bool has(const std::vector<std::string>& commands, const std::string& name) {
  return std::find(commands.begin(), commands.end(), name) != commands.end();
}

}  // namespace

std::optional<std::string> command_meant(const std::string& word,
                                         const std::vector<std::string>& commands) {
  for (const auto& [elsewhere, here] : kElsewhere) {
    if (word == elsewhere && has(commands, here)) return here;
  }
  return nearest(word, commands);
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return text;
}

std::vector<std::string> split_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> split;
  bool options_end = false;
  for (const std::string& argument : arguments) {
    options_end = options_end || argument == "--";
    const bool empty = !options_end && argument.size() > 3 && argument.starts_with("--") &&
                       argument.find('=') + 1 == argument.size();
    split.push_back(empty ? argument.substr(0, argument.size() - 1) : argument);
    if (empty) split.emplace_back();
  }
  return split;
}

}  // namespace shoal::cli
