// Ranges of sharded outer momentum over streams with the purpose kMomentumPurpose: a message that
// asks (v1::FetchMomentumRequest), then fp32 values in chunks of 256 KiB (v1::MomentumChunk), each
// with its checksum, in order. Once the connection has shown itself to be slow, the chunks are
// entropy coded. The holder waits a while when it is about to take the outer step of the wanted
// round.
//
// An interrupted transfer continues where it was, at the same holder and round, and is given up
// when nothing has moved for FetchPatience::broken. A stream in which nothing moves for
// FetchPatience::silent counts as interrupted.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "outer_opt/transport/peer_node.h"
#include "outer_opt/transport/ways.h"
#include "wire/stream/blocking_stream.h"

namespace shoal::outer_opt {

inline constexpr char kMomentumPurpose[] = "momentum";

// The holder's side; blocks until everything is sent. kNotFound: another replica; kConflict:
// another round, or not its range.
Status serve_momentum(const MomentumHandler& handler, wire::stream::BlockingStream& stream);

// The other side; blocks. `dial` is asked for a pair at the first try and after each break.
using DialHolder = std::function<Result<Reached>()>;
Status fetch_momentum_from(const DialHolder& dial, const MomentumHolder& holder,
                           const RoundKey& key, const FetchPatience& patience, std::span<float> out,
                           std::stop_token stop);

}  // namespace shoal::outer_opt
