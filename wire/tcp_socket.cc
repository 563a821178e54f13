// See tcp_socket.h.
#include "wire/tcp_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/host_port.h"

namespace shoal::wire {
namespace {

constexpr int kBacklog = 256;
constexpr unsigned kUserTimeoutMs = 8000;  // a frozen peer

void prepare(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList resolve(const std::string& address, int flags) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  const auto read = read_host_port(address);
  if (!read) return {nullptr, freeaddrinfo};
  getaddrinfo(read->host.c_str(), std::to_string(read->port).c_str(), &hints, &found);
  return {found, freeaddrinfo};
}

// "host:port" by numbers; empty for what is no such address.
std::string text_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  const std::string name = host.data();
  return (address->sa_family == AF_INET6 ? "[" + name + "]" : name) + ":" + port.data();
}

int open_socket(const addrinfo& address) {
  return socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

}  // namespace

int begin_connect(const std::string& address) {
  const AddressList list = resolve(address, 0);
  if (!list) return -1;
  const int fd = open_socket(*list);
  if (fd < 0) return -1;
  prepare(fd);
  if (connect(fd, list->ai_addr, list->ai_addrlen) == 0 || errno == EINPROGRESS) return fd;
  close(fd);
  return -1;
}

void tune_connection(int fd) { prepare(fd); }

int port_of_listener(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

Result<int> listen_at(const std::string& address) {
  const AddressList list = resolve(address, AI_PASSIVE);
  const int fd = list ? open_socket(*list) : -1, yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, kBacklog) == 0) {
    return fd;
  }
  const std::string why = list ? std::strerror(errno) : "no such address";
  if (fd >= 0) close(fd);
  return Error{Code::kUnavailable, "cannot listen on " + address + ": " + why, "bind",
               "is the port taken? Port 0 takes a free one"};
}

std::string number_of_peer(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";
  return text_of(reinterpret_cast<const sockaddr*>(&peer), size);
}

std::vector<std::string> numbers_of(const std::string& address) {
  std::vector<std::string> numbers;
  const AddressList list = resolve(address, 0);
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    numbers.push_back(text_of(each->ai_addr, each->ai_addrlen));
  }
  return numbers;
}

}  // namespace shoal::wire
