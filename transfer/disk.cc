#include "transfer/disk.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace shoal {

Error disk_error(const std::string& what, const std::string& path, int number) {
  const bool full = number == ENOSPC || number == EDQUOT;
  const bool shut = number == EROFS || number == EACCES || number == EPERM;
  const char* remedy = full   ? "free space on its disk"
                       : shut ? "make it writable for the user of this process"
                              : "check its disk";
  return {full || shut ? Code::kResourceExhausted : Code::kUnavailable,
          "cannot " + what + ": " + std::strerror(number), path, remedy};
}

Status sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return disk_error("open the folder", path, errno);
  const int failed = ::fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  return failed != 0 ? Status(disk_error("sync the folder", path, failed)) : Status();
}

Status write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return disk_error("write the file", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status write_file_durably(const std::string& path, std::string_view text) {
  const std::string beside = path + ".new";
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return disk_error("create the file", beside, errno);
  Status written = write_all(fd, std::as_bytes(std::span(text.data(), text.size())), beside);
  if (written.ok() && ::fsync(fd) != 0) written = disk_error("sync the file", beside, errno);
  ::close(fd);
  if (!written.ok()) return written;
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    return disk_error("rename the file", beside, errno);
  }
  return sync_folder(std::filesystem::path(path).parent_path().string());
}

}  // namespace shoal
