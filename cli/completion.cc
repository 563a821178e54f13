#include "cli/completion.h"

#include <algorithm>

namespace shoal::cli {
namespace {

constexpr const char* kBash = R"(_shoal() {
  local IFS=$'\n'
  COMPREPLY=($(shoal __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _shoal shoal
)";

constexpr const char* kZsh = R"sh(#compdef shoal
_shoal() {
  local -a found
  found=(${(f)"$(shoal __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -a found; else _files; fi
}
compdef _shoal shoal
)sh";

constexpr const char* kFish = R"(function __shoal_complete
  set -l words (commandline -opc) (commandline -ct)
  shoal __complete $words[2..] 2>/dev/null
end
complete -c shoal -a '(__shoal_complete)'
)";

const CLI::App* subcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == name) return sub;
  }
  return nullptr;
}

const CLI::Option* option_of(const CLI::App& app, const std::string& word) {
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() && option->check_name(word)) return option;
  }
  return nullptr;
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0; }

// "TEXT:{info,warning,error}" as the parser describes what it accepts.
std::vector<std::string> choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

NamesOf names_of(const std::string& shown) {
  for (const char* job : {"JOB", "CHECKPOINT|JOB", "--job", "--checkpoint"}) {
    if (shown == job) return NamesOf::kJobs;
  }
  return shown == "AGENT" || shown == "--agent" ? NamesOf::kAgents : NamesOf::kNothing;
}

// Where the line stands before its last word.
struct Place {
  const CLI::App* command;
  const CLI::Option* awaits = nullptr;  // an option whose value comes next
  std::size_t positionals = 0;          // already there
};

Place place_after(const CLI::App& tree, const std::vector<std::string>& words) {
  Place place{&tree};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (place.awaits != nullptr) {
      place.awaits = nullptr;
    } else if (const CLI::Option* option = option_of(*place.command, words[i])) {
      place.awaits = takes_value(*option) ? option : nullptr;
    } else if (const CLI::App* next = subcommand(*place.command, words[i])) {
      place = {next};
    } else if (words[i].rfind('-', 0) != 0) {
      ++place.positionals;
    }
  }
  return place;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Candidates for_positional(const Place& place) {
  std::size_t at = 0;
  for (const CLI::Option* option : place.command->get_options()) {
    if (option->get_positional() && at++ == place.positionals) {
      return {choices(*option), names_of(option->get_name(true))};
    }
  }
  return {};
}

Candidates all_at(const Place& place, const std::string& typed) {
  if (place.awaits != nullptr) {
    return {choices(*place.awaits), names_of(place.awaits->get_name())};
  }
  if (typed.rfind('-', 0) == 0) return {option_names(*place.command)};
  Candidates found = for_positional(place);
  for (const CLI::App* sub : place.command->get_subcommands([](const CLI::App*) { return true; })) {
    found.words.push_back(sub->get_name());
  }
  return found;
}

}  // namespace

Candidates complete(const CLI::App& tree, const std::vector<std::string>& words) {
  const std::string typed = words.empty() ? "" : words.back();
  Candidates found = all_at(place_after(tree, words), typed);
  const auto other = [&](const std::string& word) { return word.rfind(typed, 0) != 0; };
  found.words.erase(std::remove_if(found.words.begin(), found.words.end(), other),
                    found.words.end());
  return found;
}

std::optional<std::string> completion_script(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return std::nullopt;
}

}  // namespace shoal::cli
