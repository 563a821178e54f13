// For tests: the schemas of api/openapi.json as TypeScript, for the page (web/src/api_types.ts).
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "coordinator/service/http/message.h"

namespace shoal::coordinator::rest::testing {

inline constexpr const char* kPageTypesHead =
    R"(// Emitted from api/openapi.json by answer_schema_test (SHOAL_REWRITE_GOLDENS=1); not to be edited. What the fields
// mean is said there. A field with a question mark is not there when the coordinator is older.

// The page also shows fields of a job's specification that it does not know.
export type SpecValue = string | number | boolean | null | SpecValue[] | { [key: string]: SpecValue };
)";

// How deep an object is, and whether it may have fields beyond the described ones.
struct Around {
  std::size_t depth = 0;
  bool open = false;
};

std::string page_type(const Json& schema, Around around);

inline std::string named_page_type(const std::string& name) {
  if (name == "integer" || name == "number") return "number";
  if (name == "string" || name == "boolean" || name == "null") return name;
  throw std::invalid_argument("no type of the page for " + name);
}

// "a | b" of several.
inline std::string union_of(const Json& values, std::string (*one)(const Json&)) {
  std::string text;
  for (const Json& value : values) text += (text.empty() ? "" : " | ") + one(value);
  return text;
}

inline std::string word(const Json& value) {
  return value.is_null() ? "null" : "'" + value.get<std::string>() + "'";
}

inline std::string page_object(const Json& schema, Around around) {
  const std::string margin(2 * around.depth, ' ');
  const Json required = schema.value("required", Json::array());
  std::string text = around.open ? "{\n" + margin + "  [key: string]: SpecValue;\n" : "{\n";
  ++around.depth;
  for (const auto& [name, property] : schema.at("properties").items()) {
    const bool is_sure = std::ranges::find(required, Json(name)) != required.end() &&
                         !property.value("x-added-later", false);
    text += margin + "  " + name + (around.open || is_sure ? ": " : "?: ");
    text += page_type(property, around) + ";\n";
  }
  return text + margin + "}";
}

inline std::string page_type(const Json& schema, Around around) {
  if (schema.contains("$ref")) {
    const auto reference = schema["$ref"].get<std::string>();
    return reference.substr(reference.rfind('/') + 1);
  }
  if (schema.contains("enum")) return union_of(schema["enum"], word);
  if (schema.contains("const")) return schema["const"].dump();
  const Json types =
      schema.at("type").is_array() ? schema["type"] : Json::array({schema.at("type")});
  std::string text;
  for (const Json& type : types) {
    text += text.empty() ? "" : " | ";
    if (type == "array") {
      const std::string item = page_type(schema.at("items"), around);
      const bool is_one = item.front() == '{' || item.find(" | ") == std::string::npos;
      text += (is_one ? item : "(" + item + ")") + "[]";
    } else if (type == "object" && schema.contains("properties")) {
      text += page_object(schema, around);
    } else if (type == "object") {
      text += "Record<string, " + page_type(schema.at("additionalProperties"), around) + ">";
    } else {
      text += named_page_type(type.get<std::string>());
    }
  }
  return text;
}

inline std::string page_types(const Json& schemas) {
  std::string text = kPageTypesHead;
  for (const auto& [name, schema] : schemas.items()) {
    text += "\nexport interface " + name + " " + page_object(schema, {.open = name == "JobSpec"}) +
            "\n";
  }
  return text;
}

}  // namespace shoal::coordinator::rest::testing
