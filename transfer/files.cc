#include "transfer/files.h"

#include <algorithm>

#include "base/sha256.h"
#include "transfer/file_receiver.h"
#include "transfer/regular_file.h"

namespace shoal {
namespace {

// Reads one file, from `offset` on. kCancelled: `take` wants nothing more.
Status read_file(const std::string& folder, const FileEntry& entry, std::int64_t offset,
                 const std::function<bool(std::span<const std::byte>)>& take) {
  const auto file = RegularFile::open(folder, entry.path);
  if (!file) return file.error();
  std::vector<std::byte> piece(kPieceBytes);
  while (offset < entry.size.count()) {
    const auto most = std::min<std::int64_t>(entry.size.count() - offset, kPieceBytes);
    const auto bytes = std::span(piece).first(static_cast<std::size_t>(most));
    if (Status s = file->read(offset, bytes); !s.ok()) return s;
    if (!take(bytes)) return Error{Code::kCancelled, "the transfer was cancelled", "", ""};
    offset += most;
  }
  return {};
}

}  // namespace

Bytes total_size(const std::vector<FileEntry>& files) {
  Bytes total;
  for (const FileEntry& file : files) total += file.size;
  return total;
}

std::string list_digest(const std::vector<FileEntry>& files) { return sha256_of(list_text(files)); }

Status read_files(const std::string& folder, const std::vector<FileEntry>& files, Bytes from,
                  const std::function<bool(std::span<const std::byte>)>& take) {
  std::int64_t skip = from.count();
  for (const FileEntry& file : files) {
    const std::int64_t here = std::min(skip, file.size.count());
    skip -= here;
    if (here == file.size.count()) continue;
    if (Status s = read_file(folder, file, here, take); !s.ok()) return s;
  }
  return {};
}

}  // namespace shoal
