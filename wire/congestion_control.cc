// See congestion_control.h.
#include "wire/congestion_control.h"

#include <array>

// <netinet/tcp.h> lacks what newer kernels count.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace shoal::wire {
namespace {

constexpr Duration kLong = milliseconds(5);
constexpr std::int64_t kEnough = 2000;  // segments that say something about losses
constexpr std::int64_t kLossyOneIn = 200;
constexpr int kLossyLooks = 2;

void take(int fd, std::string_view name) {
  std::array<char, 16> now{};
  socklen_t size = now.size() - 1;
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now.data(), &size) == 0 && name == now.data())
    return;
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), name.size()) == 0) return;
  constexpr std::string_view kAlways = "reno";
  if (name == kForShortLines)
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kAlways.data(), kAlways.size());
}

}  // namespace

std::string_view CongestionRule::choose(const LineSeen& seen) {
  if (seen.sent >= kEnough) {
    const bool is_lossy = seen.resent * kLossyOneIn >= seen.sent;
    lossy_ = has_started_ && is_lossy ? lossy_ + 1 : 0;
    has_started_ = true;
    is_lossy_ = is_lossy_ || lossy_ >= kLossyLooks;
  }
  return is_lossy_ || seen.round_trip >= kLong ? kForLongLines : kForShortLines;
}

void CongestionControl::look() {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  const std::int64_t sent = info.tcpi_data_segs_out, resent = info.tcpi_total_retrans;
  // Too little to judge by is counted with what follows.
  const bool enough = sent - sent_ >= kEnough;
  take(fd_, rule_.choose({microseconds(info.tcpi_min_rtt), sent - sent_, resent - resent_}));
  if (!enough) return;
  sent_ = sent;
  resent_ = resent;
}

}  // namespace shoal::wire
