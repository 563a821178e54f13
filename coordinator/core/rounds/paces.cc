#include "coordinator/core/rounds/paces.h"

#include <algorithm>

#include "coordinator/core/rounds/line_times.h"

namespace shoal::coordinator {

std::vector<double> paces_of(const State& state, Instant now, const JobRecord& job,
                             const std::vector<ReplicaId>& of_one_stage) {
  std::vector<double> paces;
  double seen = 0, promised = 0;  // in sum
  bool anybody = false;
  for (const ReplicaId replica : of_one_stage) {
    const SeenService* service = state.service.find(replica);
    const bool heard = service != nullptr && service->now > Duration{};
    paces.push_back(heard ? 1 / service->now.seconds() : 0);
    anybody = anybody || heard;
    const double speed = speed_of(state, replica);
    if (!heard || speed <= 0) continue;
    seen += paces.back();
    promised += speed;
  }
  const double proportion = promised > 0 ? seen / promised : (anybody ? 0 : 1);
  for (std::size_t i = 0; i < paces.size(); ++i) {
    if (paces[i] <= 0) paces[i] = speed_of(state, of_one_stage[i]) * proportion;
  }
  if (!anybody) return paces;  // not in microbatches per second
  const std::vector<Duration> lines = line_times(state, now, job, of_one_stage);
  for (std::size_t i = 0; i < paces.size(); ++i) {
    if (lines[i].ns > 0) paces[i] = std::min(paces[i], 1 / lines[i].seconds());
  }
  return paces;
}

}  // namespace shoal::coordinator
