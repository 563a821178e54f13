// Every character of Unicode 14 beside a letter, a digit, a blank, a combining mark and a line end:
// the lines that scripts/tokenizer_goldens.py builds, too.
#pragma once

#include <string>
#include <vector>

#include <unicode/uchar.h>

#include "tokenizer/utf8.h"

namespace shoal::tokenizer {

inline bool is_character_of_unicode_14(UChar32 code) {
  const auto type = u_charType(code);
  UVersionInfo age;
  u_charAge(code, age);
  return age[0] <= 14 && type != U_UNASSIGNED && type != U_SURROGATE && type != U_PRIVATE_USE_CHAR;
}

inline std::vector<std::string> unicode_corpus() {
  constexpr int kPerLine = 256;
  std::vector<std::string> lines;
  int in_line = kPerLine;
  for (UChar32 code = 1; code < 0x110000; ++code) {
    if (!is_character_of_unicode_14(code)) continue;
    if (in_line == kPerLine) lines.emplace_back(), in_line = 0;
    ++in_line;
    std::string c;
    append_utf8(static_cast<char32_t>(code), c);
    lines.back() += c + " " + c + "a" + c + "1" + c + "\xCC\x81" + c + "\n";
  }
  return lines;
}

}  // namespace shoal::tokenizer
