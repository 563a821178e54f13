// See momentum_gather.h.
#include "outer_opt/transport/momentum_gather.h"

namespace shoal::outer_opt {

Gathered gather_momentum(PeerNode& node, const RoundKey& key, Restaged& restaged,
                         std::stop_token stop) {
  for (const MomentumHolder& holder : restaged.missing) {
    const std::span<float> out = restaged.shards.at({holder.first, holder.count});
    Status status = node.fetch_momentum(holder, key, out, stop);
    if (!status.ok()) return {std::move(status), holder.replica};
  }
  return {};
}

}  // namespace shoal::outer_opt
