// Ranges of sharded outer momentum over the wire (proto/peer.proto, FetchMomentum): fp32 values in
// chunks of 256 KiB, each with its checksum, in order. Once the connection has shown itself to be
// slow, the chunks are entropy coded.
//
// A transfer that breaks goes on where it was, at the same holder and round, until nothing has
// moved for FetchPatience::broken; a stream in which nothing moves for FetchPatience::silent is
// broken.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include <grpcpp/grpcpp.h>

#include "outer_opt/transport/peer_node.h"
#include "proto/peer.grpc.pb.h"

namespace shoal::outer_opt {

// The holder's side; blocks until everything is handed to the connection.
grpc::Status serve_momentum(const MomentumHandler& handler, const v1::FetchMomentumRequest& request,
                            grpc::ServerWriter<v1::MomentumChunk>* writer);

// The other side; blocks. `dial` is asked for a channel at the first try and after each break.
using DialHolder = std::function<std::shared_ptr<grpc::Channel>()>;
Status fetch_momentum_from(const DialHolder& dial, const MomentumHolder& holder,
                           const RoundKey& key, const FetchPatience& patience, std::span<float> out,
                           std::stop_token stop);

}  // namespace shoal::outer_opt
