// A place in a JSON file that knows its path, for readers of files that strangers wrote: what is
// missing, of another kind or not known is refused by its path. Refusals are thrown; the reader of
// the whole file catches them (refusal_of()).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace shoal::tokenizer {

class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {}

  const nlohmann::json& value() const { return value_; }
  bool is_null() const { return value_.is_null(); }
  JsonNode at(const char* key) const;   // null where there is none
  std::vector<JsonNode> items() const;  // of an array
  std::string text() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  bool flag(const char* key, bool usual) const;
  std::string text_at(const char* key) const { return at(key).text(); }
  std::string type() const { return text_at("type"); }

  [[noreturn]] void malformed(const std::string& what) const;
  // A component or a value that the library knows and we do not. `known` is what we know.
  [[noreturn]] void unsupported(const std::string& what, const std::string& known) const;
  // Refuses a value that is neither missing, null, false, 0 nor empty.
  void must_be_unset(const char* key) const;

 private:
  const nlohmann::json& value_;
  std::string path_;
};

struct JsonRefusal {
  Error error;
};

}  // namespace shoal::tokenizer
