#include "swarm/core/session/roster.h"

#include <algorithm>

namespace shoal::swarm {
namespace {

// The sum of the speeds of a stage, 0 when one of them is not known.
double total_speed(const PipelineView& view, StageIndex stage) {
  double sum = 0;
  for (const PipelineMember& m : view.members) {
    if (m.stage != stage) continue;
    if (m.speed <= 0) return 0;
    sum += m.speed;
  }
  return sum;
}

bool is_neighbor(const PipelineMember& member, const SessionOptions& options) {
  const StageIndex gap = member.stage - options.stage;
  if (gap == 0) return options.stage == 0 && member.replica != options.self;
  return gap == 1 || gap == -1;
}

}  // namespace

Roster::Roster(const PipelineView& view, const SessionOptions& options) : number(view.number) {
  members = static_cast<std::int32_t>(view.members.size());
  double own_speed = 0;
  for (const PipelineMember& m : view.members) {
    if (m.replica == options.self) in_view = true, own_speed = m.speed;
    senders += m.stage == options.stage;
    before += m.stage == options.stage - 1;
    next += m.stage == options.stage + 1;
    if (m.stage == 0) routers.push_back(m.replica);
    if (is_neighbor(m, options)) neighbors.push_back(m.replica);
  }
  std::sort(routers.begin(), routers.end());
  std::sort(neighbors.begin(), neighbors.end());
  next_speed = total_speed(view, options.stage + 1);
  const double speeds = total_speed(view, 0);
  if (speeds > 0) router_share = own_speed / speeds;
}

bool Roster::names_neighbor(ReplicaId id) const {
  return std::binary_search(neighbors.begin(), neighbors.end(), id);
}

bool Roster::names_router(ReplicaId id) const {
  return std::binary_search(routers.begin(), routers.end(), id);
}

}  // namespace shoal::swarm
