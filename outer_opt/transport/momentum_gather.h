// Getting the ranges of sharded outer momentum that others keep
// (outer_opt/core/step/momentum_shards.h): before a reduce whose parts have changed, and whole for
// a checkpoint.
#pragma once

#include <stop_token>

#include "outer_opt/core/step/momentum_shards.h"
#include "outer_opt/transport/peer_node.h"

namespace shoal::outer_opt {

struct Gathered {
  Status status;
  ReplicaId lost;  // who could not give its range
};

// Fetches what `restaged` misses into its shards, as of the round `key`, one holder after another:
// it is our line that bounds them. Blocks; ends early when `stop` is requested.
Gathered gather_momentum(PeerNode& node, const RoundKey& key, Restaged& restaged,
                         std::stop_token stop);

}  // namespace shoal::outer_opt
