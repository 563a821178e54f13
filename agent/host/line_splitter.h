// Cuts a stream of bytes into lines of bounded length. It remembers the last line that was neither
// empty nor of the level info or debug, in valid UTF-8: a message about the death of a process
// quotes it. Several info or debug lines after it show that the process did not die of it, so the
// line is forgotten.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/log_lines.h"
#include "base/wire_text.h"

namespace shoal::agent {

class LineSplitter {
 public:
  explicit LineSplitter(std::function<void(std::string_view)> on_line)
      : on_line_(std::move(on_line)) {}

  void add(std::string_view text) {
    for (const char c : text) {
      if (c == '\n') {
        finish();
      } else if (line_.size() < kLogTextMax) {
        line_ += c;
      }
    }
  }

  // The end of the stream: what is there is a line, too.
  void finish() {
    if (line_.empty()) return;
    if (!is_news(line_)) {
      last_line_ = valid_text(line_, kLastMax);
      news_ = 0;
    } else if (++news_ > kNewsMax) {
      last_line_.clear();
    }
    on_line_(line_);
    line_.clear();
  }

  // A line of the reader's own, which is never the last one of the process.
  void remark(std::string_view line) {
    finish();
    on_line_(line);
  }

  const std::string& last_line() const { return last_line_; }

 private:
  static constexpr std::size_t kLastMax = 512;
  static constexpr int kNewsMax = 3;
  static bool is_news(std::string_view line) {
    return line.starts_with("info: ") || line.starts_with("debug: ");
  }
  std::function<void(std::string_view)> on_line_;
  std::string line_, last_line_;
  int news_ = 0;  // lines of it since the last line
};

}  // namespace shoal::agent
