#include "agent/host/output_tail.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shoal::agent {
namespace {

constexpr int kTellEvery = 50;            // reads
constexpr std::int64_t kFarTooLong = 16;  // times bytes_max
constexpr std::size_t kMarkBytes = 20;    // decimal digits of the largest offset

std::int64_t read_mark(int mark) {
  std::array<char, kMarkBytes> text{};
  if (pread(mark, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return 0;
  std::int64_t offset = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), offset);
  return error == std::errc() && end == text.data() + text.size() && offset > 0 ? offset : 0;
}

std::int64_t size_of(int file) {
  struct stat info {};
  return fstat(file, &info) == 0 ? info.st_size : 0;
}

}  // namespace

int OutputTail::make(const std::string& path) {
  unlink((path + ".read").c_str());
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
}

OutputTail::OutputTail(std::string path, LineSplitter lines, std::int64_t bytes_max,
                       std::function<void(Bytes)> on_left_out)
    : path_(std::move(path)),
      bytes_max_(bytes_max),
      on_left_out_(std::move(on_left_out)),
      lines_(std::move(lines)),
      file_(open(path_.c_str(), O_RDWR | O_CLOEXEC)),
      mark_(open((path_ + ".read").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  read_ = read_mark(mark_);
  if (read_ > size_of(file_)) read_ = 0;
  line_end_ = read_;
}

OutputTail::~OutputTail() {
  if (file_ >= 0) close(file_);
  if (mark_ >= 0) close(mark_);
}

void OutputTail::read() {
  const std::int64_t before = line_end_;
  budget_ = std::min(kBurst, budget_ + kEach);
  read_at_most(budget_);
  if (++reads_ >= kProgressEvery) {
    lines_.show_progress();
    reads_ = 0;
  }
  empty_when_long();
  if (line_end_ != before) remember();
}

// Reads up to the size at the beginning, because the process may write faster than this reads.
void OutputTail::read_at_most(std::int64_t most) {
  std::array<char, 16384> buffer;
  const std::int64_t end = size_of(file_);
  if (end - read_ > most) {
    leave_out(end - read_ - most);
  } else if (left_out_ > 0) {
    tell_left_out();
  }
  while (read_ < end) {
    const auto wanted = std::min<std::int64_t>(end - read_, buffer.size());
    const auto size = pread(file_, buffer.data(), static_cast<std::size_t>(wanted), read_);
    if (size <= 0) break;
    take({buffer.data(), static_cast<std::size_t>(size)});
    budget_ -= std::min<std::int64_t>(size, budget_);
  }
}

void OutputTail::leave_out(std::int64_t bytes) {
  lines_.finish();
  read_ += bytes;
  line_end_ = read_;
  left_out_ += bytes;
  if (++reads_left_out_ >= kTellEvery) tell_left_out();
}

void OutputTail::tell_left_out() {
  lines_.remark("warning: " + std::to_string(left_out_) +
                " bytes of output were left out here: more came than the log takes");
  if (on_left_out_) on_left_out_(Bytes(left_out_));
  left_out_ = reads_left_out_ = 0;
}

void OutputTail::finish() {
  budget_ = std::max(budget_, kEndKept);
  reads_left_out_ = kTellEvery;  // what is missing is told now, before the end
  read();
  lines_.finish();
  line_end_ = read_;
  empty_when_long();
  remember();
}

void OutputTail::take(std::string_view bytes) {
  lines_.add(bytes);
  const auto last = bytes.rfind('\n');
  if (last != std::string_view::npos) line_end_ = read_ + static_cast<std::int64_t>(last) + 1;
  read_ += static_cast<std::int64_t>(bytes.size());
}

void OutputTail::remember() const {
  std::array<char, kMarkBytes + 1> text{};
  std::snprintf(text.data(), text.size(), "%020" PRId64, line_end_);
  [[maybe_unused]] const auto written = pwrite(mark_, text.data(), kMarkBytes, 0);
}

// What was read of a file that is written faster than it is read is given back to the file system
// in place: emptying the file would lose what came since the last read, the last words of a
// process among it. Where a file system cannot do that, the file is emptied all the same.
void OutputTail::empty_when_long() {
  const std::int64_t size = size_of(file_);
  const bool is_read = line_end_ >= bytes_max_ && line_end_ == read_ && size == read_;
  if (!is_read) {
    if (size - given_back_ < kFarTooLong * bytes_max_) return;
    if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, read_) == 0) {
      given_back_ = read_;
      return;
    }
  }
  if (ftruncate(file_, 0) != 0) return;
  if (!is_read) left_out_ += size - read_;
  read_ = line_end_ = given_back_ = 0;
}

}  // namespace shoal::agent
