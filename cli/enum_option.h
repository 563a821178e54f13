// An option of a command line whose values are the names of an enum's enumerators
// (base/enumerators.h).
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/enumerators.h"

namespace shoal::cli {

template <typename E>
CLI::Option* add_enum_option(CLI::App& command, const std::string& flag, E& value,
                             const std::string& help) {
  std::vector<std::string> texts;
  for (const Enumerator<E>& word : kEnumerators<E>) texts.emplace_back(word.text);
  const auto set = [&value](const std::string& text) { value = *parse_enumerator<E>(text); };
  return command.add_option_function<std::string>(flag, set, help)->check(CLI::IsMember(texts));
}

}  // namespace shoal::cli
