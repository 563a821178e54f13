#include "agent/host/output_tail.h"

#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shoal::agent {
namespace {

constexpr std::size_t kMarkBytes = 20;  // decimal digits of the largest offset

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

OutputTail::OutputTail(std::string path, LineSplitter lines, std::int64_t bytes_max)
    : path_(std::move(path)),
      bytes_max_(bytes_max),
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
  std::array<char, 16384> buffer;
  const std::int64_t before = line_end_;
  for (;;) {
    const auto size = pread(file_, buffer.data(), buffer.size(), read_);
    if (size <= 0) break;
    take({buffer.data(), static_cast<std::size_t>(size)});
  }
  empty_when_long();
  if (line_end_ != before) remember();
}

void OutputTail::finish() {
  read();
  lines_.finish();
  line_end_ = read_;
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

void OutputTail::empty_when_long() {
  if (line_end_ < bytes_max_ || line_end_ != read_ || size_of(file_) != read_) return;
  if (ftruncate(file_, 0) == 0) read_ = line_end_ = 0;
}

}  // namespace shoal::agent
