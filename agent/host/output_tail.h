// Follows the output of a process: the process appends to a file, so nothing
// that happens to its readers can break it or make it wait, and the next reader continues where the
// last one ended. How far that is lies beside the file (PATH.read). A file that has grown to
// `bytes_max` is emptied once it was read; a line that is written in that moment may be lost.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "agent/host/line_splitter.h"

namespace shoal::agent {

class OutputTail {
 public:
  // An emptied file, and a descriptor for a child to append to; -1 with errno when it cannot be
  // made. To be closed.
  static int make(const std::string& path);

  OutputTail(std::string path, LineSplitter lines, std::int64_t bytes_max = 1 << 20);
  ~OutputTail();
  OutputTail(const OutputTail&) = delete;
  OutputTail& operator=(const OutputTail&) = delete;

  void read();    // what is there by now
  void finish();  // the writer has ended: the rest, a line without a line break, too
  const std::string& last_line() const { return lines_.last_line(); }

 private:
  void take(std::string_view bytes);
  void remember() const;
  void empty_when_long();

  const std::string path_;
  const std::int64_t bytes_max_;
  LineSplitter lines_;
  int file_ = -1, mark_ = -1;  // of PATH and PATH.read
  std::int64_t read_ = 0;      // bytes of the file
  std::int64_t line_end_ = 0;  // of the last whole line: a later reader begins there
};

}  // namespace shoal::agent
