#include "coordinator/store/folder_lock.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shoal::coordinator {
namespace {

Error folder_error(const std::string& folder, const char* what, int number) {
  const bool full = number == ENOSPC || number == EDQUOT;
  return {.code = full ? Code::kResourceExhausted : Code::kPermissionDenied,
          .message = std::string(what) + ": " + std::strerror(number),
          .field = folder,
          .remedy = full ? "free space on its disk"
                         : "choose a folder that this user may write with --data-dir"};
}

Status make_folder(const std::string& folder) {
  std::error_code failure;
  if (std::filesystem::is_directory(folder, failure)) return {};
  const std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, failure);
  if (failure) return folder_error(folder, "cannot create the data folder", failure.value());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return folder_error(folder, "cannot create the data folder", errno);
  }
  return {};
}

std::string owner_of(int fd) {
  char text[32] = {};
  const ssize_t size = ::pread(fd, text, sizeof(text) - 1, 0);
  if (size <= 0) return "unknown";
  return std::string(text, std::strcspn(text, "\n"));
}

}  // namespace

FolderLock::FolderLock(const std::string& path) : file_(path, O_RDWR | O_CREAT) {}

Result<std::unique_ptr<FolderLock>> FolderLock::take(const std::string& folder) {
  if (Status made = make_folder(folder); !made.ok()) return made.error();
  std::unique_ptr<FolderLock> lock(new FolderLock(folder + "/lock"));
  const FileLock& file = lock->file_;
  const int fd = file.descriptor();
  if (fd < 0) return folder_error(folder, "cannot open the lock file", file.failure());
  if (file.is_taken()) {
    return Error{.code = Code::kConflict,
                 .message = "another coordinator (pid " + owner_of(fd) + ") uses this folder",
                 .field = folder,
                 .remedy = "stop it or choose another --data-dir"};
  }
  if (!file.held()) return folder_error(folder, "cannot lock the folder", file.failure());
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return folder_error(folder, "cannot write the lock file", errno);
  }
  return lock;
}

}  // namespace shoal::coordinator
