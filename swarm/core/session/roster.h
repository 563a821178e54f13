// A view as one replica reads it: who stands where, and what follows from their number and speed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fields.h"
#include "swarm/core/session/session_types.h"

namespace shoal::swarm {

struct Roster {
  Roster() = default;  // nobody, before the first view
  Roster(const PipelineView& view, const SessionOptions& options);

  // A replica that this one may have a stream with: of a stage beside its own or, among routers,
  // another router.
  bool names_neighbor(ReplicaId id) const;
  bool names_router(ReplicaId id) const;

  std::int64_t number = -1;
  bool in_view = false;  // this replica itself
  // All, those of this stage, those of the stages beside it.
  std::int32_t members = 0, senders = 0, before = 0, next = 0;
  // The speed of the next stage, and this replica's share among the routers; 0: not all are known.
  double next_speed = 0, router_share = 0;
  std::vector<ReplicaId> routers, neighbors;  // sorted

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<Roster>) {
    using T = Roster;
    return fields<&T::number, &T::in_view, &T::members, &T::senders, &T::before, &T::next,
                  &T::next_speed, &T::router_share, &T::routers, &T::neighbors>();
  }
};

}  // namespace shoal::swarm
