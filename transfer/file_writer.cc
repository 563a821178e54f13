#include "transfer/file_writer.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "transfer/disk.h"

namespace shoal {

FileWriter::FileWriter(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status FileWriter::write(std::span<const std::byte> bytes) {
  if (descriptor_ < 0) return disk_error("create the file", path_.string(), errno);
  // In pieces that are still in the processor's cache when they are written.
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    hash_.add(piece);
    if (Status s = write_all(descriptor_, piece, path_.string()); !s.ok()) return s;
    size_ += Bytes(static_cast<std::int64_t>(piece.size()));
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Result<FileEntry> FileWriter::finish() {
  if (descriptor_ < 0) return disk_error("create the file", path_.string(), errno);
  if (::fsync(descriptor_) != 0) return disk_error("sync the file", path_.string(), errno);
  return FileEntry{path_.filename().string(), size_, hash_.finish()};
}

Result<FileEntry> write_whole_file(const std::filesystem::path& path, std::string_view text) {
  FileWriter file(path);
  if (Status s = file.write(text); !s.ok()) return s.error();
  return file.finish();
}

}  // namespace shoal
