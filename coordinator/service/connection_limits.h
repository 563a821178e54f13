// What connections to the agents' port may take. A connection is unfinished until its first call
// was admitted, which shows the certificate of its peer (agent_door.h); then it is a member's.
//
// Each client (an IPv4 address or the /64 of an IPv6 address) has a share of unfinished
// connections, and all clients have a total. A new connection over either limit evicts the oldest
// unfinished connection, first of those that have sent nothing. Strangers therefore displace
// strangers, and an agent that shakes hands has to be faster than a whole share of newer
// connections. Members are not counted by address, because many agents may share one behind a NAT:
// a certificate has a share instead, and its oldest connection goes.
//
// A connection that does not finish in time is closed. The class decides only: its owner has the
// sockets, and closes those that are returned. Not thread-safe; the time is the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace shoal::coordinator {

// In ascending order of arrival, never used twice.
using SocketId = std::uint64_t;

struct ConnectionLimitOptions {
  std::size_t all = 448;         // members' and unfinished ones
  std::size_t unfinished = 128;  // of all clients
  std::size_t per_client = 96;   // unfinished ones
  std::size_t per_member = 16;   // of one certificate
  Duration finish = seconds(10);
};
// For a process that may open so many files and sockets. A connection takes two (agent_acceptor.h).
ConnectionLimitOptions connection_limits_of(std::size_t descriptors_max);

class ConnectionLimits {
 public:
  explicit ConnectionLimits(ConnectionLimitOptions options) : options_(options) {}

  struct Verdict {
    bool admitted = true;                // false: close the new one
    std::vector<SocketId> evicted = {};  // close these
  };
  // `peer` names the connection ("ip:port"), `client` whose share it takes. An exempt one takes no
  // share; it is the coordinator's own probe.
  Verdict add(SocketId id, const std::string& peer, const std::string& client, Instant now,
              bool exempt = false);
  // It has sent its first bytes.
  void heard(SocketId id);
  // A call with the certificate of this member was admitted on the connection; none: nobody asked
  // for one. Returns the connections of the member to close.
  std::vector<SocketId> identify(const std::string& peer, AgentId member);
  // Unfinished connections whose time is over.
  std::vector<SocketId> late(Instant now) const;
  // The unfinished connection to close when there are no descriptors left; 0: there is none.
  SocketId oldest_unfinished() const;
  void remove(SocketId id);

  std::size_t size() const { return connections_.size(); }
  std::size_t unfinished() const { return silent_.size() + heard_.size(); }
  // More than half of what may be unfinished shakes hands now: accepting more would not make it
  // faster.
  bool is_crowded() const { return heard_.size() * 2 > options_.unfinished; }

 private:
  using Ids = std::set<SocketId>;  // the oldest first
  struct Client {
    Ids silent, heard;
  };
  struct Connection {
    std::string peer, client;
    Instant since;
    bool finished = false, exempt = false;
    AgentId member;  // of a finished one
  };
  static SocketId oldest(const Ids& silent, const Ids& heard);
  void drop_unfinished(SocketId id, const Connection& connection);

  const ConnectionLimitOptions options_;
  std::unordered_map<SocketId, Connection> connections_;
  std::unordered_map<std::string, SocketId> by_peer_;
  std::unordered_map<std::string, Client> clients_;  // with unfinished connections
  std::map<AgentId, Ids> members_;
  Ids silent_, heard_;  // unfinished ones, without exempt ones
  Ids exempt_;
};

}  // namespace shoal::coordinator
