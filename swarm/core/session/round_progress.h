// How far the routers of a pipeline have come in the round after the held one, as far as this
// replica has heard: what the step barrier looks at. What is told of the round after that one is
// kept for it. All of it is `ProgressGossip`s merged, so the order in which they came does not
// matter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "base/flat_map.h"
#include "messages/pipeline.h"

namespace shoal::swarm {

class RoundProgress {
 public:
  explicit RoundProgress(ReplicaId self) : self_(self) {}

  // ---- inputs
  enum class News { kNone, kStep, kRouters };  // kRouters: one has come further, maybe a step, too
  News hear(const ProgressGossip& gossip, RoundNumber held);
  // The round, or what follows it after an abort, begins with `step`: an older `last` is void.
  void begin(std::int64_t step);
  void next_round(RoundNumber held);  // a commit: `held` is held now
  // Forgets a router that left the view without saying `last`. A `last` stays, because a late
  // router learns from it that the round is over.
  void forget(ReplicaId router);
  // Progress of this replica, a router.
  void done(std::int64_t step, bool last);
  void catch_up(std::int64_t step, bool last);  // unless it has come as far

  // ---- what follows
  std::int64_t heard() const { return heard_; }  // the highest step told; -1: none
  bool all_done(const std::vector<ReplicaId>& routers, std::int64_t step) const;
  // All have ended the round before this step.
  bool all_ended(const std::vector<ReplicaId>& routers, std::int64_t step) const;
  bool is_through(ReplicaId router, std::int64_t step) const;
  // The last step of the router that ended first, of those that end with `step` or before.
  std::optional<std::int64_t> first_end(std::int64_t step) const;
  std::int64_t own_done() const;
  bool own_last() const;
  ProgressGossip gossip(RoundNumber round, std::int64_t step) const;
  bool is_known_to_sender_of(const ProgressGossip& gossip) const;  // all that is known here

 private:
  bool ended(const RouterProgress& p) const { return p.last && p.done_through >= from_; }
  bool merge(const std::vector<RouterProgress>& told);
  void keep_for_later(const ProgressGossip& gossip);

  friend FieldAccess;
  friend constexpr auto fields_of(Of<RoundProgress>) {
    using T = RoundProgress;
    return fields<&T::self_, &T::from_, &T::heard_, &T::routers_, &T::ahead_>();
  }

  ReplicaId self_;
  std::int64_t from_ = 0, heard_ = -1;
  FlatMap<ReplicaId, RouterProgress> routers_;
  ProgressGossip ahead_;  // of a round after this one; round 0: none
};

}  // namespace shoal::swarm
