// Counts the bytes that really crossed this process's sockets to its peers: the kernel's own
// counters (TCP_INFO: bytes sent including retransmissions, bytes received), not what somebody
// handed to a library. So HTTP/2 framing, flow control and keep-alive are in, TCP and IP headers
// are not. Traffic of other exchanges on the same connections at the same time is counted as well.
// Linux only.
//
// A socket belongs to the peers when its local port is our server's, or when its remote port is one
// that we dialled. Call sample() now and then: what a socket moved between the last sample and its
// end is lost. One counter lives as long as its node, so that a peer that begins early counts, too.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/flat_map.h"
#include "base/units.h"

namespace shoal::wire {

struct SocketTotals {
  Bytes sent, received;
};

// Not thread-safe.
class SocketCounter {
 public:
  // Starts counting now. A port of 0 never matches.
  explicit SocketCounter(std::uint16_t server_port);

  void dial(const std::set<std::uint16_t>& ports);  // their sockets count from now on
  void sample();
  SocketTotals take();  // since the last take or the start; samples first

 private:
  struct Count {
    SocketTotals first, last;
    bool open = true;  // at the last sample
  };
  template <typename Use>
  void for_each_peer_socket(Use use) const;

  std::uint16_t server_port_;
  std::set<std::uint16_t> dialled_ports_;
  FlatMap<std::uint64_t, Count> sockets_;  // by inode, which names a socket for its life
};

// The port of "host:port"; 0 when there is none.
std::uint16_t port_of(const std::string& address);

}  // namespace shoal::wire
