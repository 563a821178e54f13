// JSON as Python's json module writes it, which is more than RFC 8259 permits: NaN, Infinity,
// -Infinity, numbers beyond a double, and halves of surrogate pairs ("\ud83d"). Data sets and
// folders of the Hugging Face libraries have all of them; nlohmann::json refuses them. Of a key
// that is there twice the last value counts, as in Python. Pure.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace shoal::tokenizer {

// What parse_python_json() makes of a number that is not finite: a string, so that a reader that
// needs the number refuses it by its name, and one that does not passes over it.
inline constexpr std::string_view kNotFinite = "a number that is not finite";
inline constexpr std::size_t kJsonDepthMax = 128;  // arrays and objects within each other

// The same text as RFC 8259 has it: `not_finite` (JSON, too) in place of each number that is not
// finite, U+FFFD in place of each half of a surrogate pair. Text that is no JSON of Python stays
// no JSON. Lines stay where they are.
std::string strict_json(std::string_view text, std::string_view not_finite);

// kInvalidArgument: nested deeper than kJsonDepthMax, so that what walks the value may recurse.
Status check_json_depth(std::string_view text);

// The value of a whole file. kInvalidArgument, with the line: no JSON, UTF-16, empty, or nested
// deeper than kJsonDepthMax. The message lacks the name of the file.
Result<nlohmann::json> parse_python_json(std::string_view text);

}  // namespace shoal::tokenizer
