// A file as a stream of bytes. gzip and zstd, which their first bytes tell whatever the name says,
// are decompressed as they are read, with a window of at most 128 MiB; several streams in a row are
// one text, as the tools write them. other_format() knows files that hold text in another way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shoal::corpus {

class Decompressor;

class ByteSource {
 public:
  // kNotFound: the file cannot be read.
  static Result<ByteSource> open(const std::string& path);
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) = delete;

  // Reads into `out`, at most `room` bytes (above 0); 0 only at the end. kDataLoss: a compressed
  // file that is truncated or damaged; kUnavailable: what the disk says.
  Result<std::size_t> read(char* out, std::size_t room);
  std::int64_t position() const { return position_; }  // in the file, as it is compressed
  int descriptor() const { return fd_; }

 private:
  ByteSource(std::string path, int fd);
  Status refill();
  Result<std::size_t> read_file(char* out, std::size_t room);
  Error damaged(const std::string& what) const;

  std::string path_;
  int fd_;
  std::int64_t position_ = 0;
  bool file_ended_ = false;
  std::string input_;                           // read from the file
  std::size_t used_ = 0;                        // bytes of it
  std::unique_ptr<Decompressor> decompressor_;  // null: the file is not compressed
};

// Files that are no text as they are, by the first bytes of their content and the last of the file:
// Parquet, archives, UTF-16 and others. None: it may be text. The message lacks the name.
inline constexpr std::size_t kHeadBytes = 512;
std::optional<Error> other_format(std::string_view head, std::string_view tail);

}  // namespace shoal::corpus
