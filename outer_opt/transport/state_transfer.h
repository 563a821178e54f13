// The state of a replica over the wire (proto/peer.proto, FetchState): four fp32 vectors in chunks
// of 1 MiB, each with its checksum, in order. Once the connection has shown itself to be slow, the
// chunks are entropy coded. Nothing is resumed: a broken transfer starts again.
#pragma once

#include <stop_token>

#include <grpcpp/grpcpp.h>

#include "outer_opt/transport/peer_node.h"
#include "proto/peer.grpc.pb.h"

namespace shoal::outer_opt {

// The donor's side; blocks until everything is handed to the connection.
grpc::Status serve_state(const Donor& donor, const v1::FetchStateRequest& request,
                         grpc::ServerContext* context, grpc::ServerWriter<v1::StateChunk>* writer);

// The joiner's side; blocks.
Status fetch_state_from(const std::shared_ptr<grpc::Channel>& channel, ReplicaId donor,
                        const RoundKey& key, StateSink& sink, std::stop_token stop);

// The same of a range of sharded outer momentum (FetchMomentum).
grpc::Status serve_momentum(const MomentumDonor& donor, const v1::FetchMomentumRequest& request,
                            grpc::ServerWriter<v1::StateChunk>* writer);
Status fetch_momentum_from(const std::shared_ptr<grpc::Channel>& channel,
                           const MomentumHolder& holder, const RoundKey& key, std::span<float> out,
                           std::stop_token stop);

}  // namespace shoal::outer_opt
