// See early_streams.h.
#include "outer_opt/transport/early_streams.h"

#include <algorithm>
#include <utility>

namespace shoal::outer_opt {

EarlyStreams::LinkPtr EarlyStreams::add(LinkPtr link) {
  const ReplicaId peer = link->name().from;
  waiting_.push_back(std::move(link));
  if (++count_[peer] > bounds_.per_peer) return take_oldest_of(peer);
  return waiting_.size() > bounds_.all ? take_oldest_of(greediest()) : nullptr;
}

std::vector<EarlyStreams::LinkPtr> EarlyStreams::take(const AttemptKey& key) {
  std::vector<LinkPtr> taken;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if ((*it)->name().key != key) {
      ++it;
      continue;
    }
    discount((*it)->name().from);
    taken.push_back(std::move(*it));
    it = waiting_.erase(it);
  }
  return taken;
}

void EarlyStreams::forget(const Link& link) {
  const auto found = std::ranges::find(waiting_, &link, [](const LinkPtr& it) { return it.get(); });
  if (found == waiting_.end()) return;
  discount(link.name().from);
  waiting_.erase(found);
}

// Among several with equally many, the first one has waited longest.
ReplicaId EarlyStreams::greediest() const {
  const auto first = std::ranges::max_element(
      waiting_, {}, [&](const LinkPtr& link) { return count_.at(link->name().from); });
  return (*first)->name().from;
}

EarlyStreams::LinkPtr EarlyStreams::take_oldest_of(ReplicaId peer) {
  const auto oldest =
      std::ranges::find(waiting_, peer, [](const LinkPtr& link) { return link->name().from; });
  LinkPtr taken = std::move(*oldest);
  waiting_.erase(oldest);
  discount(peer);
  return taken;
}

void EarlyStreams::discount(ReplicaId peer) {
  if (--count_[peer] == 0) count_.erase(peer);
}

}  // namespace shoal::outer_opt
