// See peer_guard.h.
#include "outer_opt/transport/peer_guard.h"

#include <utility>

namespace shoal::outer_opt {
namespace {

const identity::ReplicaName* replica_of(const wire::stream::Pair& pair) {
  return pair.peer() ? std::get_if<identity::ReplicaName>(&pair.peer()->who) : nullptr;
}

}  // namespace

bool PeerGuard::set(std::shared_ptr<const PeerIdentity> identity) {
  const MutexLock lock(mutex_);
  const bool anew = identity_ && identity_->own.replica != identity->own.replica;
  identity_ = std::move(identity);
  return anew;
}

std::shared_ptr<const PeerIdentity> PeerGuard::identity() const {
  const MutexLock lock(mutex_);
  return identity_;
}

bool PeerGuard::revoke(const std::vector<AgentId>& agents) {
  const MutexLock lock(mutex_);
  const std::size_t before = revoked_.size();
  revoked_.insert(agents.begin(), agents.end());
  return revoked_.size() > before;
}

bool PeerGuard::is_revoked(const wire::stream::Pair& pair) const {
  if (!pair.peer()) return false;
  const MutexLock lock(mutex_);
  return revoked_.contains(identity::agent_of(*pair.peer()));
}

std::optional<RefusalReason> PeerGuard::why_not(const wire::stream::Pair& pair) const {
  if (is_revoked(pair)) return RefusalReason::kRevoked;
  if (proves_nothing(pair)) return std::nullopt;
  const auto own = identity();
  const auto* peer = replica_of(pair);
  if (own && peer != nullptr && peer->job == own->own.job) return std::nullopt;
  return RefusalReason::kOtherMember;
}

bool PeerGuard::is_replica(const wire::stream::Pair& pair,
                           const wire::stream::PeerReplica& expected) const {
  if (proves_nothing(pair)) return true;
  const auto* peer = replica_of(pair);
  return peer != nullptr &&
         wire::stream::PeerReplica{peer->job, peer->epoch, peer->replica} == expected;
}

}  // namespace shoal::outer_opt
