#include "outer_opt/transport/kept_pairs.h"

#include <set>

namespace shoal::outer_opt {

Reached KeptPairs::find(const PeerAddress& peer, int lanes) const {
  const auto kept = pairs_.find({peer.address, peer.replica});
  if (kept == pairs_.end() || kept->second.reached.pair->is_over()) return {};
  const bool has_enough = kept->second.lanes >= lanes || kept->second.reached.is_lent;
  return has_enough ? kept->second.reached : Reached();
}

void KeptPairs::keep(const PeerAddress& peer, int lanes, const Reached& reached) {
  Kept& kept = pairs_[{peer.address, peer.replica}];
  if (kept.reached.pair) retired_.push_back(std::move(kept.reached));
  kept = {reached, lanes};
}

void KeptPairs::retire(const ReducePlan& plan, const ReduceResult& result) {
  std::set<Key> unwanted;
  for (const auto& [key, kept] : pairs_) {
    if (result.ok || kept.reached.pair->is_over()) unwanted.insert(key);
  }
  for (const ReduceMember& member : plan.members) {
    const Key key{member.address, member.replica};
    if (result.ok) unwanted.erase(key);
    if (!result.ok && member.replica == result.error.lost) unwanted.insert(key);
  }
  for (const Key& key : unwanted) {
    const auto kept = pairs_.find(key);
    if (kept == pairs_.end()) continue;
    retired_.push_back(std::move(kept->second.reached));
    pairs_.erase(kept);
  }
}

void KeptPairs::let_go() {
  for (const Reached& each : std::exchange(retired_, {})) each.let_go();
}

}  // namespace shoal::outer_opt
