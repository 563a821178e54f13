// Whether this replica can reach anybody of the next stage, and for how long it could not.
//
//   reachable    -> unreachable    the view has some, and no stream to any of them is left
//   unreachable  -> cut_off        for as long as the limit; nobody waits for this replica now
//   unreachable, cut_off -> reachable
#pragma once

#include <optional>

#include "base/enumerators.h"
#include "base/fields.h"
#include "base/time.h"

namespace shoal::swarm {

using shoal::to_string;

enum class ReachState { kReachable, kUnreachable, kCutOff };
constexpr auto enumerators_of(Of<ReachState>) {
  using enum ReachState;
  return enumerators<ReachState>(
      {{kReachable, "reachable"}, {kUnreachable, "unreachable"}, {kCutOff, "cut_off"}});
}
bool allowed(ReachState from, ReachState to);

class Reach {
 public:
  explicit Reach(Duration limit) : limit_(limit) {}

  // `somebody`: can be reached, or need not be. True: cut off from now on.
  bool watch(Instant now, bool somebody);
  bool cut_off() const { return state_ == ReachState::kCutOff; }
  ReachState state() const { return state_; }
  std::optional<Instant> next_deadline() const;

 private:
  void transition(ReachState to);

  friend FieldAccess;
  friend constexpr auto fields_of(Of<Reach>) {
    using T = Reach;
    return fields<&T::limit_, &T::state_, &T::since_>();
  }

  Duration limit_;
  ReachState state_ = ReachState::kReachable;
  Instant since_;  // not reachable
};

}  // namespace shoal::swarm
