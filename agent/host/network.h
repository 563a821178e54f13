// Addresses and ports of this host.
#pragma once

#include <string>
#include <vector>

#include "base/host_port.h"
#include "base/result.h"

namespace shoal::agent {

// "host:port" or "[v6]:port" of a peer to dial; errors name `flag`.
Result<HostPort> address_to_dial(const std::string& address, const std::string& flag);

// The local address that this host would use to reach `address` ("host:port"), which is usually
// the one that its peers can dial. Asks the routing table with a connected UDP socket; nothing is
// sent.
Result<std::string> local_address_towards(const std::string& address);

// Checks what an operator gave as the address of this host for its peers: an IP address or a name
// that resolves, without a port.
Status check_peer_host(const std::string& host);

// Ports for the peers' traffic: [first, last]; first == last == 0 lets the system choose.
struct PortRange {
  int first = 0, last = 0;
};
Result<PortRange> parse_port_range(const std::string& text);  // "7100-7199", "7100" or "0"

// The address to listen on for peers that dial `host`: loopback stays loopback, else every
// interface.
std::string listen_host_for(const std::string& host);

// A port of the range that can be listened on now and is not in `taken`; the search starts at a
// place that depends on `seed`, so that agents of one host rarely meet. kResourceExhausted when
// none is free.
Result<int> free_port(const PortRange& range, const std::string& listen_host,
                      const std::vector<int>& taken, std::uint64_t seed);

}  // namespace shoal::agent
