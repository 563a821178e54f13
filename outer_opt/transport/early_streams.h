// Streams that peers open for attempts which this replica has not been told of yet. They wait, in
// order of arrival, and are bounded: each peer may have a few, and all together so many. Where it
// is too many, the peer that has most waiting loses its oldest. So a hostile peer can push out
// nothing but its own.
//
// Refuses nobody by itself: adding a stream returns the one that has to go. Not thread-safe;
// the node's lock guards it.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "outer_opt/transport/reduce_link.h"

namespace shoal::outer_opt {

struct EarlyBounds {
  std::size_t per_peer = 4;  // a replica that is ahead of us has one, or one for each retry
  std::size_t all = 1024;
};

class EarlyStreams {
 public:
  using LinkPtr = std::shared_ptr<Link>;

  explicit EarlyStreams(EarlyBounds bounds) : bounds_(bounds) {}

  // The stream that has to give way, which may be this one's peer's or another's; null: none.
  [[nodiscard]] LinkPtr add(LinkPtr link);
  // The waiting streams of an attempt that begins here.
  std::vector<LinkPtr> take(const AttemptKey& key);
  void forget(const Link& link);
  std::size_t size() const { return waiting_.size(); }

 private:
  ReplicaId greediest() const;
  LinkPtr take_oldest_of(ReplicaId peer);
  void discount(ReplicaId peer);

  const EarlyBounds bounds_;
  std::list<LinkPtr> waiting_;              // oldest first
  std::map<ReplicaId, std::size_t> count_;  // of those, by peer
};

}  // namespace shoal::outer_opt
