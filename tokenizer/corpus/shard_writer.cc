// See shard_writer.h.
#include "tokenizer/corpus/shard_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace shoal::corpus {
namespace {

namespace fs = std::filesystem;

std::string shard_name(std::size_t index) {
  char name[32];
  std::snprintf(name, sizeof name, "shard_%05zu.bin", index);
  return name;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return true;
}

}  // namespace

Result<ShardWriter> ShardWriter::create(const fs::path& folder, std::size_t token_bytes,
                                        std::int64_t shard_bytes) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) {
    return Error{Code::kUnavailable, "cannot create " + folder.string() + ": " + failure.message(),
                 "--output", "name a folder where you may write"};
  }
  if (!fs::is_empty(folder, failure) || failure) {
    return Error{Code::kConflict, folder.string() + " is not empty", "--output",
                 "name a new folder, or empty this one"};
  }
  return ShardWriter(folder, token_bytes, shard_bytes);
}

ShardWriter::ShardWriter(ShardWriter&& other) noexcept
    : folder_(std::move(other.folder_)),
      token_bytes_(other.token_bytes_),
      shard_bytes_(other.shard_bytes_),
      fd_(std::exchange(other.fd_, -1)),
      written_(other.written_),
      hash_(std::move(other.hash_)),
      shards_(std::move(other.shards_)),
      files_(std::move(other.files_)),
      finished_(std::exchange(other.finished_, true)) {}

ShardWriter::~ShardWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (finished_) return;
  std::error_code ignored;
  for (const std::string& name : files_) fs::remove(folder_ / name, ignored);
}

Status ShardWriter::failed(const std::string& name) const {
  return Error{errno == ENOSPC ? Code::kResourceExhausted : Code::kUnavailable,
               (folder_ / name).string() + " cannot be written: " + std::strerror(errno),
               "--output", "name a folder on a disk with room"};
}

Status ShardWriter::open_shard() {
  const std::string name = shard_name(shards_.size());
  fd_ = ::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) return failed(name);
  files_.push_back(name);
  shards_.push_back({name, 0, ""});
  written_ = 0;
  hash_ = Sha256();
  return {};
}

Status ShardWriter::close_shard() {
  if (fd_ < 0) return {};
  const bool synced = ::fsync(fd_) == 0;
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  if (!synced || !closed) return failed(shards_.back().file);
  shards_.back().tokens = written_ / static_cast<std::int64_t>(token_bytes_);
  shards_.back().sha256 = hash_.finish();
  return {};
}

Status ShardWriter::write(std::span<const std::byte> tokens) {
  while (!tokens.empty()) {
    if (fd_ < 0) {
      if (Status s = open_shard(); !s) return s;
    }
    const auto room = static_cast<std::size_t>(shard_bytes_ - written_);
    const auto now = tokens.first(std::min(tokens.size(), room));
    if (!write_all(fd_, now)) return failed(shards_.back().file);
    hash_.add(now);
    written_ += static_cast<std::int64_t>(now.size());
    tokens = tokens.subspan(now.size());
    if (written_ < shard_bytes_) continue;
    if (Status s = close_shard(); !s) return s;
  }
  return {};
}

Status ShardWriter::write_file(const std::string& name, std::string_view content) {
  const int fd = ::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return failed(name);
  files_.push_back(name);
  const bool written = write_all(fd, std::as_bytes(std::span(content))) && ::fsync(fd) == 0;
  const bool closed = ::close(fd) == 0;
  return written && closed ? Status() : failed(name);
}

Result<std::vector<Shard>> ShardWriter::finish_shards() {
  if (Status s = close_shard(); !s) return s.error();
  return shards_;
}

Status ShardWriter::finish(std::string_view description) {
  const std::string partial = std::string(kDatasetFile) + ".partial";
  if (Status s = write_file(partial, description); !s) return s;
  std::error_code failure;
  fs::rename(folder_ / partial, folder_ / kDatasetFile, failure);
  if (failure) return errno = failure.value(), failed(kDatasetFile);
  const int fd = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) ::fsync(fd), ::close(fd);
  finished_ = true;
  return {};
}

}  // namespace shoal::corpus
