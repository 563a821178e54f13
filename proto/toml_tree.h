// TOML as a JSON tree, so that one reader serves both forms of a job. The tree keeps the order of
// the file; where each value stood is kept beside it, under its JSON pointer, for messages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

namespace shoal::proto {

struct TextPosition {
  std::uint32_t line = 0, column = 0;  // from 1
};

struct TomlTree {
  nlohmann::ordered_json root;  // dates and times, which no field has, become binary values
  std::map<std::string, TextPosition> positions;
};

// The tree, or a sentence about the syntax error with its line and column.
std::variant<TomlTree, std::string> read_toml(std::string_view text);

}  // namespace shoal::proto
