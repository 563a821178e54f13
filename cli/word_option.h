// An option of a command line whose values are the words of an enum (base/words.h).
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/words.h"

namespace shoal::cli {

template <typename E>
CLI::Option* add_word(CLI::App& command, const std::string& flag, E& value,
                      const std::string& help) {
  std::vector<std::string> texts;
  for (const Word<E>& word : kWords<E>) texts.emplace_back(word.text);
  const auto set = [&value](const std::string& text) { value = *parse_word<E>(text); };
  return command.add_option_function<std::string>(flag, set, help)->check(CLI::IsMember(texts));
}

}  // namespace shoal::cli
