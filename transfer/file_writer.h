// Writes a file and computes its SHA-256 from the bytes that it writes. So a later change of the
// file, by another process or by the disk, cannot become part of the file's entry.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/sha256.h"
#include "messages/message_parts.h"

namespace shoal {

class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);  // replaces what was there
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // kResourceExhausted: the disk is full. Nothing may be written after a failure.
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) {
    return write(std::as_bytes(std::span(text.data(), text.size())));
  }
  // Syncs the file; called once. The entry's path is the file's name, and its role is empty.
  Result<FileEntry> finish();

 private:
  const std::filesystem::path path_;
  int descriptor_;
  Sha256 hash_;
  Bytes size_;
};

// A whole file, synced.
Result<FileEntry> write_whole_file(const std::filesystem::path& path, std::string_view text);

}  // namespace shoal
