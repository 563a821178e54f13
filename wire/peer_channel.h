// How connections between trainers are set up, in one place for both ends: keep-alive that notices
// a frozen peer, messages of one frame, HTTP/2 frames and read buffers large enough that a frame of
// 1 MiB passes in few pieces. A peer of the same host is reached over its local socket
// (local_socket.h), any other over TCP. Connections carry no TLS here; they are made on a network
// the operator trusts.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <sys/types.h>

#include "base/time.h"
#include "wire/emulated_line.h"
#include "wire/tcp_socket.h"

namespace shoal::wire {

// A message above this is refused by the receiver; a frame is at most 4 MiB and its header.
inline constexpr int kPeerMessageMax = (4 << 20) + 4096;

// A channel with a connection of its own: dropping it closes the connection. A name is dialled by
// gRPC, which tries all its addresses; a number by ourselves, because a congestion control can only
// be chosen for one's own sockets.
struct PeerChannel {
  std::shared_ptr<grpc::Channel> channel;
  bool local = false;  // it cannot tell its state and does not connect again: for one use
  pid_t process = 0;   // at the other end of a local socket with nothing between; 0: unknown
  std::shared_ptr<const TcpWatch> connection = {};  // that we dialled: it does not connect again
  // For another use. A channel that waits before it tries again would refuse it without a try.
  bool usable() const;
};

// An idle or silent peer is pinged every `keepalive` and given up when it does not answer within
// another `keepalive`. With a `line`, the connection goes over it.
PeerChannel dial_peer(const std::string& address, Duration keepalive, EmulatedLine* line = nullptr);

// What dial_peer() sets on a channel, for one that is dialled in another way.
grpc::ChannelArguments peer_channel_arguments(Duration keepalive);

// The same for the accepting end. How much may be under way to it: on a far connection what gRPC
// finds out that the line holds (GRPC_ARG_HTTP2_BDP_PROBE), on others a message and 64 KiB, which
// fills a near line and leaves its queues short. A server has one of the two for all connections,
// so whoever accepts has two servers.
void configure_peer_server(grpc::ServerBuilder& builder, Duration keepalive, bool far);

bool is_far(Duration round_trip);
inline constexpr Duration kFarRoundTrip = milliseconds(10);

}  // namespace shoal::wire
