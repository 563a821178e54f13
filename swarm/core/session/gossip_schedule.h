// When the own gossip goes out, and to whom: at once to everybody when the own step or progress
// changed; what was heard of others waits a moment for more, since a replica that has all of it
// moves on and says so; a new stream is told at once. Nobody is told what he is known to know.
//
//   quiet      -> pending      something was heard of others; it goes out by its deadline
//              -> urgent       the own step or progress changed
//   pending    -> urgent
//              -> quiet        told
//   urgent     -> quiet        told
#pragma once

#include <cstdint>
#include <optional>

#include "base/enumerators.h"
#include "base/flat_map.h"
#include "swarm/core/session/session_types.h"

namespace shoal::swarm {

inline constexpr Duration kGossipDelay = milliseconds(50);  // others' progress is collected

enum class GossipState { kQuiet, kPending, kUrgent };
constexpr auto enumerators_of(Of<GossipState>) {
  using enum GossipState;
  return enumerators<GossipState>({{kQuiet, "quiet"}, {kPending, "pending"}, {kUrgent, "urgent"}});
}
bool allowed(GossipState from, GossipState to);

class GossipSchedule {
 public:
  void connected(ReplicaId peer);
  void ended(ReplicaId peer) { told_.erase(peer); }
  void heard_news(Instant now);  // of others
  void own_news();
  void knows(ReplicaId peer);  // it has said all that is known here

  // Whether gossip is due now.
  bool due(Instant now) const;
  void tell(Instant now, const ProgressGossip& gossip, SessionActions& out);
  GossipState state() const { return state_; }
  std::optional<Instant> next_deadline() const;

 private:
  void transition(GossipState to);
  bool due_to_all(Instant now) const;

  friend FieldAccess;
  friend constexpr auto fields_of(Of<GossipSchedule>) {
    using T = GossipSchedule;
    return fields<&T::state_, &T::version_, &T::by_, &T::untold_, &T::told_>();
  }

  GossipState state_ = GossipState::kQuiet;
  std::uint64_t version_ = 1;
  Instant by_;                              // when it is pending
  std::int32_t untold_ = 0;                 // new streams
  FlatMap<ReplicaId, std::uint64_t> told_;  // streams, and the version each has; 0: none
};

}  // namespace shoal::swarm
