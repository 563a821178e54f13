// The neighbors of one replica: who is named by the view, who has a stream here, and what each may
// be sent. This is the machine that each of them goes through:
//
//   gone       -> expected     the view names it
//              -> stranger     it has dialed, and no view names it yet
//   expected   -> gone         it left the view
//              -> neighbor    its stream is there
//              -> wired        the same, of the next stage, and this replica is in the view itself
//   stranger   -> gone         its stream ended
//              -> neighbor, wired     the view names it
//   neighbor  -> wired        this replica came into the view
//   wired      -> neighbor    this replica left the view
//   neighbor, wired -> expected    its stream ended
//                    -> stranger    it left the view
//
// The wiring holds exactly those that are wired; one that comes back keeps what was measured of it,
// unless it was gone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/flat_map.h"
#include "swarm/core/session/roster.h"
#include "swarm/core/session/session_types.h"
#include "swarm/core/session/wiring.h"

namespace shoal::swarm {

inline constexpr Duration kRefusalPause = milliseconds(250);  // nothing new for who refused

enum class PeerState { kGone, kExpected, kStranger, kNeighbor, kWired };
constexpr auto enumerators_of(Of<PeerState>) {
  using enum PeerState;
  return enumerators<PeerState>({{kGone, "gone"},
                                 {kExpected, "expected"},
                                 {kStranger, "stranger"},
                                 {kNeighbor, "neighbor"},
                                 {kWired, "wired"}});
}
bool allowed(PeerState from, PeerState to);

class Peers {
 public:
  explicit Peers(const SessionOptions& options);

  // ---- inputs
  // A newer view. The losses that it means are found before, from the roster of the view.
  void take(const PipelineView& view, const Roster& roster, SessionActions& out);
  void connected(ReplicaId id);
  void ended(ReplicaId id);                       // its stream
  void measured(ReplicaId id, Duration service);  // a wired one said what a microbatch took
  void pause(Instant now, ReplicaId id);          // it refused: nothing new for a while
  void unpause(Instant now);

  // ---- what follows
  const Roster& roster() const { return roster_; }
  PeerState state(ReplicaId id) const;
  bool has_stream(ReplicaId id) const;
  // Named by the view, with a stream, and of the stage before this one.
  bool may_send_here(ReplicaId id) const;
  std::int32_t window() const;        // own microbatches under way
  std::int32_t received_max() const;  // tasks of one sender
  Wiring& wiring() { return wiring_; }
  const Wiring& wiring() const { return wiring_; }
  std::optional<Instant> next_deadline() const;

 private:
  struct Peer {
    PeerState state = PeerState::kGone;
    StageIndex stage = 0;
    double speed = 0;
    Duration line_time;  // no microbatch takes it less; zero: not known
    // Next stage: its service as it reported it. While it is wired, the wiring knows better.
    std::optional<Duration> measured;
    friend constexpr auto fields_of(Of<Peer>) {
      using T = Peer;
      return fields<&T::state, &T::stage, &T::speed, &T::line_time, &T::measured>();
    }
  };
  struct Pause {
    Instant until;
    ReplicaId peer;
    friend constexpr auto fields_of(Of<Pause>) {
      using T = Pause;
      return fields<&T::until, &T::peer>();
    }
  };

  void transition(ReplicaId id, Peer& peer, PeerState to);
  PeerState with_stream(ReplicaId id, const Peer& peer) const;
  void settle(ReplicaId id, Peer& peer);
  double window_total() const;
  std::int32_t credits(const Peer& peer) const;
  Duration expected_service(const Peer& peer) const;
  void dial(const PipelineView& view, SessionActions& out);

  friend FieldAccess;
  friend constexpr auto fields_of(Of<Peers>) {
    using T = Peers;
    return fields<&T::options_, &T::roster_, &T::peers_, &T::dialed_, &T::pauses_, &T::wiring_>();
  }

  SessionOptions options_;
  Roster roster_;
  FlatMap<ReplicaId, Peer> peers_;
  std::vector<PipelineMember> dialed_;
  std::vector<Pause> pauses_;  // the first to end first
  Wiring wiring_;
};

}  // namespace shoal::swarm
