// Sockets of this folder: what the kernel knows of the descriptor counts, not the family that is
// said here. A socket, unlike a descriptor, raises no SIGPIPE when the other end is gone.
#pragma once

#include <sys/socket.h>

#include "wire/stream/asio.h"

namespace shoal::wire::relay {

namespace net = stream::net;
using stream::ErrorCode;
using Socket = net::generic::stream_protocol::socket;
inline const net::generic::stream_protocol kProtocol(AF_INET, 0);

}  // namespace shoal::wire::relay
