// A regular file below a folder, opened for reading. A process that is not trusted may write into
// the folder: the name resolves without symbolic links and without leaving the folder (openat2,
// RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH), and opening or reading a FIFO or a device never blocks,
// because neither is accepted.
//
// Bytes that are compared and then used are read through one descriptor: a name may mean another
// file a moment later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace shoal {

class RegularFile {
 public:
  // `path` is relative to `folder`. kDataLoss: it is missing, or is not a regular file.
  // kUnavailable: it exists and cannot be opened. The field of an error is `path`.
  static Result<RegularFile> open(const std::string& folder, const std::string& path);

  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  int descriptor() const { return descriptor_; }
  Bytes size() const { return size_; }  // when it was opened

  // Fills `into` from byte `offset` on. kDataLoss: the file ends before, or cannot be read.
  Status read(std::int64_t offset, std::span<std::byte> into) const;

 private:
  RegularFile(int descriptor, Bytes size, std::string path)
      : descriptor_(descriptor), size_(size), path_(std::move(path)) {}

  int descriptor_;
  Bytes size_;
  std::string path_;
};

}  // namespace shoal
