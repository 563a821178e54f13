// Small functions on text: blanks at both ends, lists in a sentence, hexadecimal digits.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace shoal {

// Without spaces, tabs and ends of lines (\r, \n) at both ends.
std::string_view trimmed(std::string_view text);

// "a, b, c". `parts`: a range of strings or views.
template <typename Parts>
std::string joined(const Parts& parts, std::string_view separator = ", ") {
  std::string text;
  bool is_first = true;
  for (const auto& part : parts) {
    if (!is_first) text += separator;
    is_first = false;
    text += part;
  }
  return text;
}

// Two lower-case hex digits for each byte.
std::string hex_of(std::span<const std::byte> bytes);
std::string hex_of(std::string_view bytes);

// Whether it has so many lower-case hex digits, and nothing else.
bool is_hex(std::string_view text, std::size_t digits);

}  // namespace shoal
