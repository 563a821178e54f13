// The pairs that a peer node dialed for a reduce and keeps for the next round with the same
// members. Another attempt may still use a pair that is to go, so it is retired first, and closed
// when no attempt runs.
//
// Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "outer_opt/core/round/round.h"
#include "outer_opt/transport/peer_node.h"
#include "outer_opt/transport/ways.h"

namespace shoal::outer_opt {

class KeptPairs {
 public:
  // One that stands and was reached with at least so many connections; a lent one has those that
  // its peer wanted. Without a pair: none.
  Reached find(const PeerAddress& peer, int lanes) const;
  // In the place of the one before.
  void keep(const PeerAddress& peer, int lanes, const Reached& reached);
  // After an attempt: after one that ended well all pairs with others than its members, after one
  // that failed the pair with the member that was lost; and those that are closed.
  void retire(const ReducePlan& plan, const ReduceResult& result);
  void let_go();  // of what is retired

 private:
  // By the peer's number, too: behind two routers there may be the same address.
  using Key = std::pair<std::string, ReplicaId>;
  struct Kept {
    Reached reached;
    int lanes = 1;
  };
  std::map<Key, Kept> pairs_;
  std::vector<Reached> retired_;
};

}  // namespace shoal::outer_opt
