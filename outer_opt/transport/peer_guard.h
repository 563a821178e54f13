// Decides whose streams a node accepts: compares the proven identity of a pair's other end with the
// replica that this process is, the plan of a round, and the agents that were revoked. Processes of
// this host and user reach each other by Unix sockets and prove nothing; whether others have to is
// an option.
//
// Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "outer_opt/core/round/round.h"
#include "outer_opt/transport/peer_identity.h"
#include "threads/mutex.h"
#include "wire/stream/peers.h"

namespace shoal::outer_opt {

class PeerGuard {
 public:
  explicit PeerGuard(bool wants_certificates) : wants_certificates_(wants_certificates) {}

  // True: this process was another replica before.
  bool set(std::shared_ptr<const PeerIdentity> identity) SHOAL_EXCLUDES(mutex_);
  std::shared_ptr<const PeerIdentity> identity() const SHOAL_EXCLUDES(mutex_);
  // True: some of these agents were not revoked before.
  bool revoke(const std::vector<AgentId>& agents) SHOAL_EXCLUDES(mutex_);

  bool is_revoked(const wire::stream::Pair& pair) const SHOAL_EXCLUDES(mutex_);
  // Why a stream of this pair is not to be taken, whatever it is for; none: it may be.
  std::optional<RefusalReason> why_not(const wire::stream::Pair& pair) const;
  // Whether the other end is this replica.
  bool is_replica(const wire::stream::Pair& pair, const wire::stream::PeerReplica& expected) const;

 private:
  bool proves_nothing(const wire::stream::Pair& pair) const {
    return !wants_certificates_ || pair.is_local();
  }

  const bool wants_certificates_;
  mutable Mutex mutex_;
  std::shared_ptr<const PeerIdentity> identity_ SHOAL_GUARDED_BY(mutex_);
  std::set<AgentId> revoked_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::outer_opt
