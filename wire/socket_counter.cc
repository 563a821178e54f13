// Walks /proc/self/fd. linux/tcp.h has the counters that the C library's header lacks.
#include "wire/socket_counter.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/host_port.h"

namespace shoal::wire {
namespace {

std::uint16_t port_of_socket(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (name(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  }
  return 0;
}

bool read_totals(int fd, SocketTotals& totals) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  totals.sent = Bytes(static_cast<std::int64_t>(info.tcpi_bytes_sent));
  totals.received = Bytes(static_cast<std::int64_t>(info.tcpi_bytes_received));
  return true;
}

}  // namespace

std::uint16_t port_of(const std::string& address) {
  const auto read = read_host_port(address);
  return read ? read->port : 0;
}

template <typename Use>
void SocketCounter::for_each_peer_socket(Use use) const {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const int fd = std::atoi(entry->d_name);
    struct stat info {};
    if (fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode)) continue;
    const std::uint16_t remote = port_of_socket(fd, &getpeername);
    if (remote == 0) continue;  // listening, or not TCP
    const bool accepted = server_port_ != 0 && port_of_socket(fd, &getsockname) == server_port_;
    if (!accepted && !dialled_ports_.contains(remote)) continue;
    SocketTotals totals;
    if (read_totals(fd, totals)) use(static_cast<std::uint64_t>(info.st_ino), totals);
  }
  closedir(folder);
}

SocketCounter::SocketCounter(std::uint16_t server_port) : server_port_(server_port) {
  take();  // what is there already does not count
}

void SocketCounter::dial(const std::set<std::uint16_t>& ports) {
  sample();  // peers that dialled us since the last sample count from their first byte
  dialled_ports_.insert(ports.begin(), ports.end());
  dialled_ports_.erase(0);
  for_each_peer_socket([&](std::uint64_t inode, const SocketTotals& totals) {
    if (!sockets_.contains(inode)) sockets_.put(inode, Count{totals, totals});
  });
}

void SocketCounter::sample() {
  for (auto& [inode, count] : sockets_) count.open = false;
  for_each_peer_socket([&](std::uint64_t inode, const SocketTotals& totals) {
    Count& count = sockets_[inode];  // a new socket starts from zero
    count.last = totals;
    count.open = true;
  });
}

SocketTotals SocketCounter::take() {
  sample();
  SocketTotals sum;
  FlatMap<std::uint64_t, Count> still_open;
  for (const auto& [inode, count] : sockets_) {
    sum.sent += count.last.sent - count.first.sent;
    sum.received += count.last.received - count.first.received;
    if (count.open) still_open.put(inode, Count{count.last, count.last});
  }
  sockets_ = std::move(still_open);
  return sum;
}

}  // namespace shoal::wire
