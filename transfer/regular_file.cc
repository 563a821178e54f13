#include "transfer/regular_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shoal {
namespace {

constexpr const char* kRestore = "restore it from a backup, or use another checkpoint";
constexpr int kTriesMax = 8;  // EAGAIN: something on the way was renamed meanwhile

Error not_regular(const std::string& path, const std::string& what) {
  return {Code::kDataLoss, path + " is " + what + ", not a regular file", path,
          "write regular files only"};
}

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a link";
  return "a device";
}

int open_below(int folder, const std::string& path) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return -1;
}

Error why_not_opened(const std::string& path, int number) {
  if (number == ENOENT || number == ENOTDIR)
    return {Code::kDataLoss, "the file is missing", path, kRestore};
  if (number == ELOOP || number == EXDEV) return not_regular(path, "a link, or behind one");
  if (number == ENXIO) return not_regular(path, "a socket");
  return {Code::kUnavailable, "cannot open the file: " + std::string(std::strerror(number)), path,
          "let the process that reads it open it"};
}

}  // namespace

Result<RegularFile> RegularFile::open(const std::string& folder, const std::string& path) {
  const int below = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (below < 0) return why_not_opened(path, errno);
  const int descriptor = open_below(below, path);
  const int failed = errno;
  ::close(below);
  if (descriptor < 0) return why_not_opened(path, failed);
  RegularFile file(descriptor, Bytes(), path);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return why_not_opened(path, errno);
  if (!S_ISREG(status.st_mode)) return not_regular(path, kind_of(status.st_mode));
  file.size_ = Bytes(status.st_size);
  return file;
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)) {}

RegularFile& RegularFile::operator=(RegularFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status RegularFile::read(std::int64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return Error{Code::kDataLoss, "the file became shorter or unreadable", path_, kRestore};
    into = into.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return {};
}

}  // namespace shoal
