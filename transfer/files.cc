#include "transfer/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "base/sha256.h"
#include "transfer/file_receiver.h"

namespace shoal {
namespace {

constexpr const char* kRestore = "restore it from a backup, or use another checkpoint";

// Reads one file, from `offset` on. False in `wanted`: the receiver wants nothing more.
Status read_file(const std::string& path, std::int64_t offset, std::int64_t size,
                 const std::function<bool(std::span<const std::byte>)>& take) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno != ENOENT && errno != ENOTDIR) {  // it may be whole
    return Error{Code::kUnavailable, "cannot open the file: " + std::string(std::strerror(errno)),
                 path, "let the process that reads it open it"};
  }
  if (fd < 0) return Error{Code::kDataLoss, "the file is missing", path, kRestore};
  std::vector<std::byte> piece(kPieceBytes);
  bool wanted = true, whole = true;
  while (offset < size && wanted && whole) {
    const auto most = std::min<std::int64_t>(size - offset, kPieceBytes);
    const ssize_t got = ::pread(fd, piece.data(), static_cast<std::size_t>(most), offset);
    if (got < 0 && errno == EINTR) continue;
    whole = got > 0;
    if (whole) wanted = take(std::span(piece).first(static_cast<std::size_t>(got)));
    offset += std::max<ssize_t>(got, 0);
  }
  ::close(fd);
  if (!wanted) return Error{Code::kCancelled, "the transfer was cancelled", "", ""};
  if (whole) return {};
  return Error{Code::kDataLoss, "the file became shorter or unreadable", path, kRestore};
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
    if (Status s = read_file(folder + "/" + file.path, here, file.size.count(), take); !s.ok()) {
      return s;
    }
  }
  return {};
}

}  // namespace shoal
