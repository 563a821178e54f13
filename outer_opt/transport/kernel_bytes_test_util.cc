// Walks /proc/self/fd. linux/tcp.h has the counters that the C library's header lacks, and stands
// no other one beside it: hence a file of its own.
#include "outer_opt/transport/kernel_bytes_test_util.h"

#include <filesystem>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace shoal::outer_opt {

std::int64_t kernel_bytes(const std::string& address) {
  std::uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in own{};
    socklen_t size = sizeof own;
    const bool has_name = getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
    if (!has_name || !address.ends_with(":" + std::to_string(ntohs(own.sin_port)))) continue;
    tcp_info info{};
    size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    sum += info.tcpi_bytes_sent + info.tcpi_bytes_received;
  }
  return static_cast<std::int64_t>(sum);
}

}  // namespace shoal::outer_opt
