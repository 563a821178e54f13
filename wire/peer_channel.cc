// Channel arguments; the values were chosen by measurement (docs/performance.md).
#include "wire/peer_channel.h"

#include <functional>
#include <utility>

#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>

#include "wire/local_socket.h"
#include "wire/socket_owner.h"

namespace shoal::wire {
namespace {

void set_common(const std::function<void(const char*, int)>& set, Duration keepalive) {
  const int keepalive_ms = static_cast<int>(keepalive.ms());
  set(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_ms);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, keepalive_ms / 2);
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, (1 << 24) - 1);
  set(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 2 << 20);
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20);
  set(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, 64 << 10);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 2 << 20);
}

}  // namespace

grpc::ChannelArguments peer_channel_arguments(Duration keepalive) {
  grpc::ChannelArguments arguments;
  set_common([&](const char* name, int value) { arguments.SetInt(name, value); }, keepalive);
  arguments.SetMaxReceiveMessageSize(kPeerMessageMax);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // also the limit of a connect
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);               // a stream is never repeated
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

PeerChannel dial_peer(const std::string& address, Duration keepalive, EmulatedLine* line) {
  grpc::ChannelArguments arguments = peer_channel_arguments(keepalive);
  int fd = connect_locally(address, keepalive);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, fd >= 0 && line == nullptr ? 0 : 1);
  if (line != nullptr) fd = line->pass(fd >= 0 ? fd : begin_connect(address));
  if (fd >= 0) {
    const pid_t process = line == nullptr ? process_behind(fd).value_or(0) : 0;
    return {grpc::CreateCustomInsecureChannelFromFd(address, fd, arguments), true, process};
  }
  if (names_number(address)) fd = begin_connect(address);
  if (fd >= 0) {
    auto watch = std::make_shared<const TcpWatch>(fd);
    auto channel = grpc::CreateCustomInsecureChannelFromFd(address, fd, arguments);
    return {std::move(channel), false, 0, std::move(watch)};
  }
  return {grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments), false};
}

bool PeerChannel::usable() const {
  if (!channel || local) return false;
  if (connection) return connection->stands();
  return channel->GetState(false) != GRPC_CHANNEL_TRANSIENT_FAILURE;
}

bool is_far(Duration round_trip) { return round_trip >= kFarRoundTrip; }

void configure_peer_server(grpc::ServerBuilder& builder, Duration keepalive, bool far) {
  set_common([&](const char* name, int value) { builder.AddChannelArgument(name, value); },
             keepalive);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, far ? 1 : 0);
  builder.SetMaxReceiveMessageSize(kPeerMessageMax);
}

}  // namespace shoal::wire
