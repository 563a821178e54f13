// What the rules of a specification are written with: refusals are collected, each with the field,
// what is accepted and what was given.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/field_error.h"

namespace shoal {

inline std::string text_of(std::int64_t value) { return std::to_string(value); }

inline std::string text_of(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

// Cut where it gets long, between two characters of UTF-8: a refusal is to be read.
inline std::string quoted(std::string_view text) {
  std::size_t shown = 64;
  if (text.size() <= shown) return "'" + std::string(text) + "'";
  while (shown > 0 && (text[shown] & 0xC0) == 0x80) --shown;
  return "'" + std::string(text.substr(0, shown)) + "…'";
}

// Each check says what is accepted before it says what came.
class FieldChecker {
 public:
  template <typename Value>
  void require(bool good, const char* pointer, std::string accepted, const Value& given) {
    if (!good) refuse(pointer, std::move(accepted) + ", got " + text_of(given));
  }
  void within(const char* pointer, std::int64_t value, std::int64_t lo, std::int64_t hi) {
    require(value >= lo && value <= hi, pointer,
            "must be from " + text_of(lo) + " to " + text_of(hi), value);
  }
  void refuse(const char* pointer, std::string detail) {
    errors_.push_back({pointer, std::move(detail)});
  }
  std::vector<FieldError> take() { return std::move(errors_); }

 private:
  std::vector<FieldError> errors_;
};

}  // namespace shoal
