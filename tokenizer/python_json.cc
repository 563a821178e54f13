// See python_json.h.
#include "tokenizer/python_json.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace shoal::tokenizer {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kReplacement = "\\ufffd";
constexpr std::size_t kEscapeBytes = 6;  // of \uXXXX

Error bad_json(const std::string& what, const std::string& remedy) {
  return {Code::kInvalidArgument, what, "", remedy};
}

// The code unit of the escape \uXXXX at `at`; none: there is none.
std::optional<unsigned> code_unit_at(std::string_view text, std::size_t at) {
  if (text.size() - std::min(at, text.size()) < kEscapeBytes) return std::nullopt;
  const std::string_view escape = text.substr(at, kEscapeBytes);
  if (!escape.starts_with("\\u")) return std::nullopt;
  unsigned unit = 0;
  const char* const end = escape.data() + escape.size();
  const auto [stop, failure] = std::from_chars(escape.data() + 2, end, unit, 16);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return unit;
}

bool is_first_half(unsigned unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_second_half(unsigned unit) { return unit >= 0xDC00 && unit < 0xE000; }

// Appends the escape at `at`, and returns its length there.
std::size_t copy_escape(std::string_view text, std::size_t at, std::string& out) {
  const auto unit = code_unit_at(text, at);
  std::size_t length = std::min<std::size_t>(2, text.size() - at);
  if (unit) {
    const auto next = code_unit_at(text, at + kEscapeBytes);
    const bool pair = is_first_half(*unit) && next && is_second_half(*next);
    length = pair ? 2 * kEscapeBytes : kEscapeBytes;
    if (!pair && (is_first_half(*unit) || is_second_half(*unit))) {
      out += kReplacement;
      return length;
    }
  }
  out += text.substr(at, length);
  return length;
}

// Appends the string that begins at `at`, and returns where it ends.
std::size_t copy_string(std::string_view text, std::size_t at, std::string& out) {
  out += text[at++];
  while (at < text.size()) {
    const std::size_t special = std::min(text.find_first_of("\"\\", at), text.size());
    out += text.substr(at, special - at);
    at = special;
    if (at == text.size()) break;
    if (text[at] == '"') {
      out += '"';
      return at + 1;
    }
    at += copy_escape(text, at, out);
  }
  return at;
}

bool is_beyond_double(std::string_view number) {
  double value = 0;
  const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
  // Too small is 0, which every reader takes.
  return result.ec == std::errc::result_out_of_range &&
         number.find("e-") == std::string_view::npos && number.find("E-") == std::string_view::npos;
}

// What begins at `at` outside of strings: its length, and whether it is a number that is not
// finite.
struct Token {
  std::size_t length = 1;
  bool not_finite = false;
};
Token token_at(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (rest.starts_with(word)) return {word.size(), true};
  }
  const bool number = rest.front() == '-' || (rest.front() >= '0' && rest.front() <= '9');
  if (!number) return {};
  const std::size_t length = std::min(rest.find_first_not_of("+-.0123456789eE"), rest.size());
  return {length, is_beyond_double(rest.substr(0, length))};
}

std::size_t depth_of(std::string_view text) {
  std::size_t depth = 0, deepest = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\';
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::string line_of(std::string_view text, std::size_t at) {
  const auto before = text.substr(0, std::min(at, text.size()));
  return "line " + std::to_string(1 + std::count(before.begin(), before.end(), '\n'));
}

}  // namespace

std::string strict_json(std::string_view text, std::string_view not_finite) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at = copy_string(text, at, out);
      continue;
    }
    const Token token = token_at(text, at);
    out += token.not_finite ? not_finite : text.substr(at, token.length);
    at += token.length;
  }
  return out;
}

Status check_json_depth(std::string_view text) {
  if (depth_of(text) <= kJsonDepthMax) return {};
  return bad_json("is nested deeper than " + std::to_string(kJsonDepthMax) + " levels",
                  "take another copy of the file");
}

Result<Json> parse_python_json(std::string_view text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return bad_json("is UTF-16, not UTF-8", "convert it: iconv -f UTF-16 -t UTF-8");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return bad_json("is empty", "take another copy of the file");
  }
  if (Status s = check_json_depth(text); !s) return s.error();
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_discarded()) return json;
  const std::string strict = strict_json(text, "\"" + std::string(kNotFinite) + "\"");
  try {
    return Json::parse(strict);
  } catch (const Json::parse_error& e) {
    return bad_json("is not JSON at " + line_of(strict, e.byte > 0 ? e.byte - 1 : 0),
                    "take another copy of the file");
  } catch (const Json::exception&) {  // a number that is_beyond_double() does not see
    return bad_json("has a number that no computer reads", "take another copy of the file");
  }
}

}  // namespace shoal::tokenizer
