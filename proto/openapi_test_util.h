// For tests: api/openapi.json, in which types follow from lists of fields and descriptions are
// written by hand.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "threads/file_content.h"

namespace shoal {

inline std::string text_of_file(const std::string& path) { return file_content(path).value_or(""); }

// A committed file that follows from something else.
inline void expect_committed(const std::string& path, const std::string& wanted) {
  const std::string found = text_of_file(path);
  if (std::getenv("SHOAL_REWRITE_GOLDENS") != nullptr) std::ofstream(path) << wanted;
  EXPECT_TRUE(wanted == found) << "SHOAL_REWRITE_GOLDENS=1 rewrites " << path;
}

// A schema with what `wanted` says of its type, behind what was written by hand.
inline nlohmann::ordered_json bring_in(const nlohmann::ordered_json& wanted,
                                       const nlohmann::ordered_json& before) {
  using Json = nlohmann::ordered_json;
  constexpr std::string_view kDerived[] = {
      "$ref",     "type",       "enum",     "default", "items",         "minItems",
      "maxItems", "properties", "required", "format",  "x-added-later", "additionalProperties"};
  Json result = Json::object();
  for (const auto& [name, value] : before.items()) {
    const bool is_derived =
        wanted.contains(name) || std::ranges::find(kDerived, name) != std::end(kDerived);
    if (!is_derived) result[name] = value;
  }
  for (const auto& [name, value] : wanted.items()) {
    const Json old = before.value(name, Json::object());
    if (name == "items") {
      result[name] = bring_in(value, old);
    } else if (name == "properties") {
      Json& properties = result[name] = Json::object();
      for (const auto& [key, schema] : value.items()) {
        properties[key] = bring_in(schema, old.value(key, Json::object()));
      }
    } else {
      result[name] = value;
    }
  }
  return result;
}

}  // namespace shoal
