// Follows the output of a process: the process appends to a file, so nothing
// that happens to its readers can break it or make it wait, and the next reader continues where the
// last one ended. How far that is lies beside the file (PATH.read). A file that has grown to
// `bytes_max` is emptied once it was read; a line that is written in that moment may be lost. On
// the disk it never takes much more than 16 times that.
//
// Every kProgressEvery reads it gives what a progress bar shows, which has no end of line.
//
// A process that writes more than kBurst at once, or kEach from one read() to the next for long,
// loses the older part of it, and a line says how much: the log is for others, too. The last
// kEndKept before its end are always there.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/host/line_splitter.h"
#include "base/units.h"

namespace shoal::agent {

class OutputTail {
 public:
  static constexpr std::int64_t kBurst = 1 << 20, kEach = 32 << 10, kEndKept = 64 << 10;
  static constexpr std::int64_t kFileMax = 1 << 20;  // bytes_max of trainers
  static constexpr int kProgressEvery = 25;          // reads

  // An emptied file, and a descriptor for a child to append to; -1 with errno when it cannot be
  // made. To be closed.
  static int make(const std::string& path);

  // `on_left_out` gets the bytes of each loss that a line tells of.
  OutputTail(std::string path, LineSplitter lines, std::int64_t bytes_max = kFileMax,
             std::function<void(Bytes)> on_left_out = {});
  ~OutputTail();
  OutputTail(const OutputTail&) = delete;
  OutputTail& operator=(const OutputTail&) = delete;

  void read();    // what is there by now
  void finish();  // the writer has ended: the rest, a line without a line break, too
  const std::string& last_line() const { return lines_.last_line(); }

 private:
  void read_at_most(std::int64_t most);
  void leave_out(std::int64_t bytes);
  void tell_left_out();
  void take(std::string_view bytes);
  void remember() const;
  void empty_when_long();

  const std::string path_;
  const std::int64_t bytes_max_;
  const std::function<void(Bytes)> on_left_out_;
  LineSplitter lines_;
  int file_ = -1, mark_ = -1;     // of PATH and PATH.read
  std::int64_t read_ = 0;         // bytes of the file
  std::int64_t line_end_ = 0;     // of the last whole line: a later reader begins there
  std::int64_t given_back_ = 0;   // a hole at the beginning
  std::int64_t budget_ = kBurst;  // bytes that may be taken now
  std::int64_t left_out_ = 0;     // not told yet
  int reads_left_out_ = 0;        // in a row
  int reads_ = 0;                 // since a progress bar was given
};

}  // namespace shoal::agent
