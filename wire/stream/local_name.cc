// See local_name.h.
#include "wire/stream/local_name.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/socket_owner.h"

namespace shoal::wire::stream {
namespace {

constexpr char kPrefix[] = "shoal-streams:";
constexpr int kBacklog = 256;

// Calls bind or connect with the abstract name of `address`.
bool with_name(int fd, const std::string& address, int (*call)(int, const sockaddr*, socklen_t)) {
  const std::string name = kPrefix + address;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (fd < 0 || name.size() >= sizeof at.sun_path) return false;
  std::memcpy(at.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return call(fd, reinterpret_cast<const sockaddr*>(&at), size) == 0;
}

int new_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

}  // namespace

int connect_by_name(const std::string& address) {
  const int fd = new_socket();
  if (with_name(fd, address, &::connect) && process_behind(fd)) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

Result<int> listen_by_name(const std::string& address) {
  const int fd = new_socket();
  if (with_name(fd, address, &::bind) && listen(fd, kBacklog) == 0) return fd;
  const std::string why = std::strerror(errno);
  if (fd >= 0) close(fd);
  return Error{Code::kUnavailable, "cannot listen on the local socket of " + address + ": " + why,
               "bind", "does another process advertise the same address?"};
}

}  // namespace shoal::wire::stream
