// A file that is appended to and rotated at a size, so that a host's disk never fills with it. One
// thread at a time.
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

 private:
  void rotate();

  std::string path_;
  std::int64_t bytes_max_, bytes_ = 0;
  int kept_;
  std::ofstream out_;
};

}  // namespace shoal::agent
