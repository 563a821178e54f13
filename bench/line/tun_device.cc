// See tun_device.h. The kernel's side: Documentation/networking/tuntap.rst; the header before each
// packet is virtio's, whose own linux/virtio_net.h is no C++ (a member is called class).
#include "bench/line/tun_device.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"

namespace shoal::bench {
namespace {

constexpr int kQueueMax = 4096;  // packets that wait to be read
constexpr std::size_t kPacketMax = 65536;

struct VirtioHeader {
  std::uint8_t flags = 0, segmentation = 0;
  std::uint16_t header_size = 0, segment_payload = 0, checksum_start = 0, checksum_offset = 0;
};
static_assert(sizeof(VirtioHeader) == 10);
constexpr std::uint8_t kNeedsChecksum = 1, kTcpOverIpv4 = 1;

Error refused(const std::string& what, const std::string& field, const std::string& remedy) {
  return {Code::kUnavailable, what + ": " + std::strerror(errno), field, remedy};
}

// This thread is in another namespace as long as this lives.
class Visit {
 public:
  explicit Visit(int network) : home_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    there_ = home_ && setns(network, CLONE_NEWNET) == 0;
  }
  ~Visit() {
    if (there_) SHOAL_CHECK(setns(home_.get(), CLONE_NEWNET) == 0, "cannot go back");
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  bool there() const { return there_; }

 private:
  const Descriptor home_;
  bool there_ = false;
};

Descriptor open_network(const std::string& name) {
  std::string path = name;
  if (name.empty())
    path = "/proc/thread-self/ns/net";
  else if (name.find('/') == std::string::npos)
    path = "/run/netns/" + name;
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

ifreq request_for(const std::string& device) {
  ifreq request{};
  device.copy(static_cast<char*>(request.ifr_name), IFNAMSIZ - 1);
  return request;
}

Result<Descriptor> make_device(const TunOptions& options) {
  Descriptor tun(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tun) {
    return refused("cannot open /dev/net/tun", options.device,
                   "run as root on a kernel with TUN; in a container, give it that device");
  }
  ifreq request = request_for(options.device);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(tun.get(), TUNSETIFF, &request) != 0) {
    return refused("cannot be made", options.device, "is the name taken? It needs CAP_NET_ADMIN");
  }
  const unsigned features = options.offload ? TUN_F_CSUM | TUN_F_TSO4 : 0;
  if (ioctl(tun.get(), TUNSETOFFLOAD, features) != 0) {
    return refused("cannot offload segmentation", options.device, "set offload to false");
  }
  return tun;
}

sockaddr address_of(std::uint32_t address) {
  sockaddr_in internet{};
  internet.sin_family = AF_INET;
  internet.sin_addr.s_addr = htonl(address);
  sockaddr general{};
  std::memcpy(&general, &internet, sizeof general);
  return general;
}

Status set_up(const TunOptions& options) {
  const Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto ask = [&](unsigned long what, const auto& fill) {
    ifreq request = request_for(options.device);
    fill(request);
    return ioctl(any.get(), what, &request) == 0;
  };
  const std::uint32_t mask = options.prefix == 0 ? 0 : ~0U << (32 - options.prefix);
  const bool done = any &&
                    ask(SIOCSIFADDR, [&](ifreq& r) { r.ifr_addr = address_of(options.address); }) &&
                    ask(SIOCSIFNETMASK, [&](ifreq& r) { r.ifr_netmask = address_of(mask); }) &&
                    ask(SIOCSIFMTU, [&](ifreq& r) { r.ifr_mtu = options.mtu; }) &&
                    ask(SIOCSIFTXQLEN, [&](ifreq& r) { r.ifr_qlen = kQueueMax; }) &&
                    ask(SIOCSIFFLAGS, [&](ifreq& r) { r.ifr_flags = IFF_UP | IFF_RUNNING; });
  if (done) return {};
  return refused("cannot be set up", options.device, "is its address taken?");
}

}  // namespace

Result<TunDevice> TunDevice::open(const TunOptions& options) {
  Descriptor network = open_network(options.network);
  if (!network) {
    return refused("no such namespace", options.network, "`ip netns add` makes one");
  }
  const Visit visit(network.get());
  if (!visit.there()) return refused("cannot be entered", options.network, "run as root");
  auto tun = make_device(options);
  if (!tun.ok()) return tun.error();
  if (Status status = set_up(options); !status.ok()) return status.error();
  return TunDevice(std::move(*tun), std::move(network), options.device);
}

TunDevice::TunDevice(Descriptor tun, Descriptor network, std::string device)
    : tun_(std::move(tun)),
      network_(std::move(network)),
      device_(std::move(device)),
      buffer_(kPacketMax) {}

TunDevice::Read TunDevice::read(std::optional<Packet>& packet) {
  VirtioHeader head;
  std::array<iovec, 2> parts = {iovec{&head, sizeof head}, iovec{buffer_.data(), buffer_.size()}};
  const ssize_t size = readv(tun_.get(), parts.data(), parts.size());
  if (size < static_cast<ssize_t>(sizeof head)) return Read::kNothing;
  Offload offload;
  offload.partial_checksum = (head.flags & kNeedsChecksum) != 0;
  offload.checksum_start = head.checksum_start;
  offload.checksum_offset = head.checksum_offset;
  if (head.segmentation == kTcpOverIpv4) offload.segment_payload = head.segment_payload;
  packet =
      make_packet(std::span(buffer_).first(static_cast<std::size_t>(size) - sizeof head), offload);
  return packet ? Read::kPacket : Read::kOther;
}

bool TunDevice::write(const Train& train) {
  const Packet& packet = *train.packet;
  TrainHeader header = header_of(train);
  const std::span<const std::byte> content = train.content();
  VirtioHeader head;
  if (packet.partial_checksum) {
    head.flags = kNeedsChecksum;
    head.checksum_start = packet.checksum_start;
    head.checksum_offset = packet.checksum_offset;
  }
  if (train.count > 1) {
    head.segmentation = kTcpOverIpv4;
    head.segment_payload = static_cast<std::uint16_t>(packet.payload);
    head.header_size = static_cast<std::uint16_t>(packet.header);
  }
  std::array<iovec, 3> parts = {
      iovec{&head, sizeof head}, iovec{header.bytes.data(), header.size},
      iovec{const_cast<std::byte*>(content.data()), content.size()}};  // NOLINT: only read
  return writev(tun_.get(), parts.data(), parts.size()) > 0;
}

std::int64_t TunDevice::dropped() const {
  const Visit visit(network_.get());
  std::ifstream devices("/proc/thread-self/net/dev");
  for (std::string line; visit.there() && std::getline(devices, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t value = 0;
    if (!(words >> name) || name != device_ + ":") continue;
    for (int i = 0; i < 12; ++i) words >> value;  // eight of receiving; bytes, packets, errors
    return value;
  }
  return 0;
}

}  // namespace shoal::bench
