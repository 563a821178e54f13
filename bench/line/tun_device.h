// A TUN device in a network namespace: what a host there sends to its peers is read here, what is
// written here is what it receives. The device is gone with this object. Where segmentation is
// offloaded, the host's TCP hands over up to 64 KiB at once and takes as much, and nobody computes
// checksums. IPv4 only: what else the host sends is read and counted by the caller.
//
// Opening needs root, or CAP_NET_ADMIN in the namespace. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/line/core/packet.h"
#include "threads/descriptor.h"

namespace shoal::bench {

struct TunOptions {
  std::string network;  // a name that `ip netns` knows, a path with a slash; empty: our own
  std::string device = "line";
  std::uint32_t address = 0;  // in host order
  int prefix = 24;            // bits; peers have addresses with the same ones
  int mtu = 1500;
  bool offload = true;
};

class TunDevice {
 public:
  // Makes the device, gives it its address and sets it up. Refuses with the name of the device or
  // of the namespace.
  static Result<TunDevice> open(const TunOptions& options);

  int fd() const { return tun_.get(); }

  enum class Read { kNothing, kOther, kPacket };  // kOther: not IPv4
  Read read(std::optional<Packet>& packet);       // does not wait
  bool write(const Train& train);                 // false: the host refused it

  // Packets that the host sent faster than they were read, and that its device dropped.
  std::int64_t dropped() const;

 private:
  TunDevice(Descriptor tun, Descriptor network, std::string device);

  Descriptor tun_, network_;
  std::string device_;
  std::vector<std::byte> buffer_;
};

}  // namespace shoal::bench
