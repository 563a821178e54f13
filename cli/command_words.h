// The words of a command line: what was meant by one that no command has, and values that are
// empty.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shoal::cli {

// The command of these that was meant: the usual name elsewhere for the same (`list` for `ls`),
// else the nearest spelling.
std::optional<std::string> command_meant(const std::string& word,
                                         const std::vector<std::string>& commands);

// "validate, plan and submit".
std::string listed(const std::vector<std::string>& words);

// `--prompt=` as `--prompt ""`: CLI11 takes the former for an option whose value follows.
std::vector<std::string> split_empty_values(const std::vector<std::string>& arguments);

}  // namespace shoal::cli
