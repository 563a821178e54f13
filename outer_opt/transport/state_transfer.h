// The state of a replica over the wire (proto/peer.proto, FetchState): four fp32 vectors in chunks
// of 256 KiB, each with its checksum, in order. Once the connection has shown itself to be slow,
// the chunks are entropy coded.
//
// A transfer that breaks goes on where it was, at the same donor and round, until nothing has moved
// for FetchPatience::broken; a stream in which nothing moves for FetchPatience::silent is broken.
// Only Adam's moments, which a donor copies for its joiners, may begin anew: when the donor made
// another copy meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include <grpcpp/grpcpp.h>

#include "outer_opt/transport/peer_node.h"
#include "proto/peer.grpc.pb.h"

namespace shoal::outer_opt {

// The donor's side; blocks until everything is handed to the connection.
grpc::Status serve_state(const Donor& donor, const v1::FetchStateRequest& request,
                         grpc::ServerContext* context, grpc::ServerWriter<v1::StateChunk>* writer);

// The joiner's side; blocks. `dial` is asked for a channel at the first try and after each break.
using DialDonor = std::function<std::shared_ptr<grpc::Channel>()>;
Status fetch_state_from(const DialDonor& dial, ReplicaId donor, const RoundKey& key,
                        const FetchPatience& patience, StateSink& sink, std::stop_token stop);

// The same of a range of sharded outer momentum (FetchMomentum).
grpc::Status serve_momentum(const MomentumDonor& donor, const v1::FetchMomentumRequest& request,
                            grpc::ServerWriter<v1::StateChunk>* writer);
Status fetch_momentum_from(const DialDonor& dial, const MomentumHolder& holder, const RoundKey& key,
                           const FetchPatience& patience, std::span<float> out,
                           std::stop_token stop);

}  // namespace shoal::outer_opt
