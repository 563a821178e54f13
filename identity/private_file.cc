#include "identity/private_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "threads/descriptor.h"

namespace shoal::identity {
namespace {

Error file_error(const std::string& path, const char* what, int number) {
  const std::string message = std::string(what) + ": " + std::strerror(number);
  if (number == ENOENT) return {Code::kNotFound, message, path, "check the path"};
  if (number == ENOSPC || number == EDQUOT) {
    return {Code::kResourceExhausted, message, path, "free space on its disk"};
  }
  return {Code::kPermissionDenied, message, path,
          "check owner and permissions of the file and its folder"};
}

Status check_kind(const struct stat& info, const std::string& path, bool is_private) {
  if (!S_ISREG(info.st_mode)) {
    return Error{Code::kInvalidArgument, "is not a regular file", path, "name the file itself"};
  }
  if (is_private && (info.st_mode & 077) != 0) {
    return Error{Code::kPermissionDenied, "others can read this secret", path,
                 "chmod 600 " + path + "; if it may have leaked, replace it"};
  }
  return {};
}

Result<std::string> read_whole(int fd, const std::string& path) {
  std::string content(kPrivateFileMax + 1, '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = ::read(fd, content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(path, "cannot be read", errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kPrivateFileMax) {
    return Error{Code::kInvalidArgument,
                 "is longer than " + std::to_string(kPrivateFileMax) + " bytes", path,
                 "name a file that holds a key, a certificate or a token"};
  }
  content.resize(size);
  return content;
}

Result<std::string> read_file(const std::string& path, bool is_private) {
  // A pipe without a writer would block the open.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return file_error(path, "cannot be opened", errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return file_error(path, "cannot be read", errno);
  if (const Status kind = check_kind(info, path, is_private); !kind) return kind.error();
  return read_whole(file.get(), path);
}

bool write_whole(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t put = ::write(fd, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(put));
  }
  return ::fsync(fd) == 0;
}

Status sync_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0 && ::fsync(fd.get()) == 0) return {};
  return file_error(path, "cannot sync its folder", errno);
}

}  // namespace

Result<std::string> read_private_file(const std::string& path) { return read_file(path, true); }

Result<std::string> read_public_file(const std::string& path) { return read_file(path, false); }

Result<std::string> read_token_file(const std::string& path) {
  Result<std::string> content = read_private_file(path);
  if (!content) return content;
  const std::string_view token = trimmed(*content);
  if (token.empty()) {
    return Error{Code::kInvalidArgument, "holds no token", path, "write the token into it"};
  }
  return std::string(token);
}

Status write_private_file(const std::string& path, std::string_view content) {
  // Without O_EXCL a file that somebody left there would keep its mode.
  const std::string partial = path + ".new";
  ::unlink(partial.c_str());
  const Descriptor file(
      ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return file_error(path, "cannot be made", errno);
  if (!write_whole(file.get(), content)) {
    const int number = errno;
    ::unlink(partial.c_str());
    return file_error(path, "cannot be written", number);
  }
  if (::rename(partial.c_str(), path.c_str()) != 0) {
    return file_error(path, "cannot be put in its place", errno);
  }
  return sync_folder_of(path);
}

}  // namespace shoal::identity
