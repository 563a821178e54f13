// UTF-8, as RFC 3629 has it: what is a character and where the next one begins.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shoal::tokenizer {

// What begins at an offset: a character, or the bytes that become one U+FFFD (the longest beginning
// of a character, at least one byte: Unicode 15, table 3-8).
struct Utf8Sequence {
  std::size_t length = 0;
  bool valid = false;
};
Utf8Sequence sequence_at(std::string_view text, std::size_t at);  // at < text.size()

// The offset of the first byte that belongs to no character; npos: all is UTF-8.
std::size_t find_invalid_utf8(std::string_view text);
std::string with_replacements(std::string_view bytes);  // valid UTF-8

// In valid UTF-8.
char32_t code_point_at(std::string_view text, std::size_t at);
void append_utf8(char32_t code_point, std::string& out);
inline bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

}  // namespace shoal::tokenizer
