#include "coordinator/service/token_file.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

namespace shoal::coordinator {
namespace {

constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kFileMax = 1024;

Error file_error(const std::string& path, const char* what, int number) {
  const bool full = number == ENOSPC || number == EDQUOT;
  return {.code = full ? Code::kResourceExhausted : Code::kPermissionDenied,
          .message = std::string(what) + ": " + std::strerror(number),
          .field = path,
          .remedy = full ? "free space on its disk"
                         : "check the owner and the rights of the data folder"};
}

std::string random_token() {
  std::array<unsigned char, kTokenBytes> bytes;
  SHOAL_CHECK(RAND_bytes(bytes.data(), bytes.size()) == 1, "no source of random bytes");
  static constexpr char kAlphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string token;
  unsigned int bits = 0;
  int held = 0;
  for (const unsigned char byte : bytes) {
    bits = bits << 8 | byte;
    for (held += 8; held >= 6; held -= 6) token += kAlphabet[bits >> (held - 6) & 63];
  }
  token += kAlphabet[bits << (6 - held) & 63];
  return token;
}

Result<std::string> read_token(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return file_error(path, "cannot look at the token file", errno);
  if (!S_ISREG(info.st_mode)) {
    return Error{Code::kInvalidArgument, "is not a regular file", path,
                 "move it away; the next start makes a new token"};
  }
  if ((info.st_mode & 077) != 0) {
    return Error{.code = Code::kPermissionDenied,
                 .message = "others can read the join token",
                 .field = path,
                 .remedy = "chmod 600 the file; if it may have leaked, delete it and start again"};
  }
  char text[kFileMax];
  const ssize_t size = ::read(fd, text, sizeof(text));
  if (size < 0) return file_error(path, "cannot read the token file", errno);
  std::string_view token(text, static_cast<std::size_t>(size));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) {
    token.remove_suffix(1);
  }
  if (token.size() < 32) {
    return Error{.code = Code::kInvalidArgument,
                 .message = "holds no join token (at least 32 characters)",
                 .field = path,
                 .remedy = "delete the file; the next start makes a new token"};
  }
  return std::string(token);
}

// Written beside and renamed, so that a crash leaves the whole token or none.
Result<std::string> make_token(const std::string& path) {
  const std::string partial = path + ".new";
  const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return file_error(path, "cannot make the token file", errno);
  const std::string token = random_token();
  const std::string line = token + "\n";
  const bool written = ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       ::fsync(fd) == 0;
  const int number = errno;
  ::close(fd);
  if (!written) return file_error(path, "cannot write the token file", number);
  if (::rename(partial.c_str(), path.c_str()) != 0) {
    return file_error(path, "cannot place the token file", errno);
  }
  return token;
}

}  // namespace

Result<std::string> load_or_make_token(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return make_token(path);
  if (fd < 0) return file_error(path, "cannot open the token file", errno);
  Result<std::string> token = read_token(fd, path);
  ::close(fd);
  return token;
}

bool same_token(std::string_view given, std::string_view expected) {
  return given.size() == expected.size() &&
         CRYPTO_memcmp(given.data(), expected.data(), expected.size()) == 0;
}

}  // namespace shoal::coordinator
