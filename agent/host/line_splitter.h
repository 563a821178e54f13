// Cuts a stream of bytes into lines of bounded length. It remembers the last line that was neither
// empty nor of the level info or debug, in valid UTF-8: a message about the death of a process
// quotes it. Several info or debug lines after it show that the process did not die of it, so the
// line is forgotten.
//
// A progress bar goes back to the beginning of its line with a carriage return and paints it anew.
// Only what it painted last is kept; show_progress() gives it while the line has no end. A line of
// Shoal that follows such a bar without a line feed is one of its own.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

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
      } else if (c == '\r') {
        returned_ = true;
      } else {
        if (std::exchange(returned_, false)) repaint();
        if (line_.size() < kLogTextMax) line_ += c;
      }
    }
  }

  // The end of the stream: what is there is a line, too.
  void finish() {
    if (std::exchange(repainted_, false) || !shown_.empty()) end_progress();
    if (!line_.empty()) end_line();
    returned_ = false;
  }

  // What a progress bar shows now, unless that was given before.
  void show_progress() {
    if (!repainted_ && !returned_) return;
    if (is_blank(line_) || line_ == shown_) return;
    shown_ = line_;
    on_line_(line_);
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
  static bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t") == std::string_view::npos;
  }

  void repaint() {
    repainted_ = true;
    line_.clear();
  }
  // Gives the bar, unless it was given or wiped, and leaves the line that follows it.
  void end_progress() {
    std::string after;
    const std::size_t news =
        std::min({line_.find("info: "), line_.find("debug: "), line_.find("warning: ")});
    if (news != std::string::npos) after = line_.substr(news);
    line_.resize(std::min(news, line_.size()));
    if (!is_blank(line_)) end_line(line_ != shown_);
    line_ = std::move(after);
    shown_.clear();
  }
  void end_line(bool is_new = true) {
    if (!is_news(line_)) {
      last_line_ = valid_text(line_, kLastMax);
      news_ = 0;
    } else if (++news_ > kNewsMax) {
      last_line_.clear();
    }
    if (is_new) on_line_(line_);
    line_.clear();
  }

  std::function<void(std::string_view)> on_line_;
  std::string line_, last_line_;
  std::string shown_;       // of the bar, the state that was given last
  bool returned_ = false;   // the last byte was a carriage return
  bool repainted_ = false;  // the line is of a bar
  int news_ = 0;            // lines of it since the last line
};

}  // namespace shoal::agent
