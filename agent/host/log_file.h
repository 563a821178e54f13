// The output of one trainer: written to a file that is rotated at a size, and its last line
// remembered for the sentence that tells why it died. One thread at a time.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace shoal::agent {

class LogFile {
 public:
  // Appends to `path`; at bytes_max it becomes path.1, path.1 becomes path.2, and so on up to
  // `kept`.
  LogFile(std::string path, std::int64_t bytes_max, int kept);

  void append(std::string_view text);
  const std::string& last_line() const { return last_line_; }  // not empty ones, at most 512 bytes

 private:
  void rotate();
  void remember(std::string_view text);

  std::string path_;
  std::int64_t bytes_max_, bytes_ = 0;
  int kept_;
  std::ofstream out_;
  std::string line_, last_line_;
};

}  // namespace shoal::agent
