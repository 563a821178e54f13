// Where a JSON value ends that comes in pieces. It follows strings and brackets only: whether the
// value is JSON is for the parser to say.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

namespace shoal::corpus {

class ValueEnd {
 public:
  // `text` begins with the value, and with what the call before was given. The length of the value;
  // npos: it does not end there. 0: no value begins there.
  std::size_t find(std::string_view text) {
    for (; at_ < text.size(); ++at_) {
      const char c = text[at_];
      if (in_string_) {
        if (std::exchange(escaped_, !escaped_ && c == '\\')) continue;
        in_string_ = c != '"';
        if (!in_string_ && depth_ == 0) return at_ + 1;
      } else if (c == '"') {
        in_string_ = true;
      } else if (c == '[' || c == '{') {
        ++depth_;
      } else if (c == ']' || c == '}') {
        if (depth_ == 0) return at_;  // of what is around it
        if (--depth_ == 0) return at_ + 1;
      } else if (depth_ == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
        return at_;
      }
    }
    return std::string_view::npos;
  }

 private:
  std::size_t at_ = 0, depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace shoal::corpus
