#include "swarm/core/session/gossip_schedule.h"

#include <string>

#include "base/check.h"

namespace shoal::swarm {

using enum GossipState;

bool allowed(GossipState from, GossipState to) {
  if (to == kPending) return from == kQuiet;
  return from != to;
}

void GossipSchedule::transition(GossipState to) {
  SHOAL_CHECK(allowed(state_, to),
              std::string("gossip: ") + to_string(state_) + " -> " + to_string(to));
  state_ = to;
}

void GossipSchedule::connected(ReplicaId peer) {
  told_.put(peer, 0);
  ++untold_;
}

void GossipSchedule::heard_news(Instant now) {
  ++version_;
  if (state_ != kQuiet) return;
  transition(kPending);
  by_ = now + kGossipDelay;
}

void GossipSchedule::own_news() {
  ++version_;
  if (state_ != kUrgent) transition(kUrgent);
}

void GossipSchedule::knows(ReplicaId peer) { told_.put(peer, version_); }

bool GossipSchedule::due_to_all(Instant now) const {
  return state_ == kUrgent || (state_ == kPending && by_ <= now);
}

bool GossipSchedule::due(Instant now) const { return due_to_all(now) || untold_ > 0; }

void GossipSchedule::tell(Instant now, const ProgressGossip& gossip, SessionActions& out) {
  const bool all = due_to_all(now);
  for (auto& [peer, version] : told_) {
    if (all ? version == version_ : version > 0) continue;
    version = version_;
    out.push_back(SendGossip{peer, gossip});
  }
  untold_ = 0;
  if (all) transition(kQuiet);
}

std::optional<Instant> GossipSchedule::next_deadline() const {
  if (state_ != kPending) return std::nullopt;
  return by_;
}

}  // namespace shoal::swarm
