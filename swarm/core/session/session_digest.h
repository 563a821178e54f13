// Feeds the values that several machines of a session hold into a digest. Lists come with their
// length: what ends one must not look like the beginning of the next.
#pragma once

#include <vector>

#include "base/digest.h"
#include "swarm/core/session/session_types.h"

namespace shoal::swarm {

inline void add(Digester& d, const Microbatch& m) {
  d.add(m.round).add(m.step).add(m.router.n).add(m.index).add(static_cast<std::int32_t>(m.kind));
}

inline void add(Digester& d, const RouterProgress& p) {
  d.add(p.router.n).add(p.done_through).add(p.last);
}

inline void add(Digester& d, const SessionStats& s) {
  d.add(s.queued).add(s.in_flight).add(s.microbatches).add(s.recomputed).add(s.resent).add(s.past);
  d.add(s.unknown).add(s.answered_only).add(s.refused).add(s.added_again).add(s.service.ns);
}

template <typename Number>
void add_list(Digester& d, const std::vector<Number>& list) {
  d.add(list.size());
  for (const Number& one : list) d.add(one);
}

}  // namespace shoal::swarm
