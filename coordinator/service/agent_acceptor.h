// Accepts the connections of the agents' port and hands them to gRPC, which does TLS and HTTP/2.
// gRPC's own acceptor (1.51) has no limits, and stops accepting permanently once the process has no
// descriptor left.
//
// Each connection is held twice: gRPC has its descriptor, the acceptor a duplicate, through which
// it sees the first bytes and the end, and closes what connection_limits.h evicts. No byte passes
// through the acceptor. A connection is finished when a call on it was admitted: admitted() takes
// the peer of the call, by which gRPC and the acceptor know the connection.
//
// One descriptor is kept in reserve. When none is left, the acceptor closes it, accepts and closes
// one connection, and evicts the oldest unfinished one: a full process refuses connections one by
// one, and accepts again as soon as it can.
//
// Threads: all methods may be called by any thread; accepting is a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <grpcpp/server_builder.h>

#include "base/ids.h"
#include "base/result.h"
#include "coordinator/service/connection_limits.h"
#include "threads/descriptor.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

// "ipv4:1.2.3.4:5", "ipv6:[::1]:5" or with %5B: what gRPC calls a peer, as "1.2.3.4:5", "[::1]:5".
std::string peer_of_call(const std::string& grpc_peer);

class AgentAcceptor {
 public:
  using Handover = std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;

  // Binds; connections wait until start(). `on_refused` is called for each connection that is
  // evicted, late or over the limits. kConflict: the port is in use.
  static Result<std::unique_ptr<AgentAcceptor>> listen(const std::string& bind,
                                                       ConnectionLimitOptions limits,
                                                       std::function<void()> on_refused);
  ~AgentAcceptor() { stop(); }

  std::uint16_t port() const { return port_; }
  void start(Handover grpc);  // whose server runs
  void stop();                // before that server stops

  // A call on the connection of this peer (ServerContext::peer()) was admitted.
  void admitted(const std::string& grpc_peer, AgentId member) SHOAL_EXCLUDES(mutex_);

  // The next connection of this host from that port is the coordinator's own: it takes no share.
  void expect_own(std::uint16_t port) SHOAL_EXCLUDES(mutex_);

 private:
  AgentAcceptor(ConnectionLimitOptions limits, std::function<void()> on_refused)
      : on_refused_(std::move(on_refused)), limits_(limits) {}
  Status open(const std::string& bind);
  Status watch(int fd, std::uint64_t id, std::uint32_t events);
  void run();
  void on_event(std::uint64_t id, std::uint32_t events) SHOAL_EXCLUDES(mutex_);
  void accept_some(int listener) SHOAL_EXCLUDES(mutex_);
  bool accept_one(int listener) SHOAL_EXCLUDES(mutex_);
  void take(Descriptor connection) SHOAL_EXCLUDES(mutex_);
  void make_room(int listener) SHOAL_EXCLUDES(mutex_);
  void close_late() SHOAL_EXCLUDES(mutex_);
  void close(SocketId id) SHOAL_REQUIRES(mutex_);
  void refuse(SocketId id) SHOAL_REQUIRES(mutex_);
  bool is_own(int connection, const std::string& peer) SHOAL_REQUIRES(mutex_);

  const std::function<void()> on_refused_;
  std::vector<Descriptor> listeners_;
  std::uint16_t port_ = 0;
  Descriptor epoll_, waker_, reserve_;
  Handover grpc_;
  std::thread thread_;

  Mutex mutex_;
  ConnectionLimits limits_ SHOAL_GUARDED_BY(mutex_);
  std::unordered_map<SocketId, Descriptor> duplicates_ SHOAL_GUARDED_BY(mutex_);
  std::optional<std::uint16_t> own_port_ SHOAL_GUARDED_BY(mutex_);
  SocketId last_ SHOAL_GUARDED_BY(mutex_) = kFirstSocket;

  // Ids of events below it are those of the waker and the listeners.
  static constexpr SocketId kFirstSocket = 1'000;
};

}  // namespace shoal::coordinator
