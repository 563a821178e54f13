#include "coordinator/core/state/naming.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

constexpr std::size_t kNamedMax = 8;

}  // namespace

std::string display_name(const State& state, ReplicaId replica) {
  const ReplicaRecord* record = state.replicas.find(replica);
  if (record == nullptr) return to_string(replica);
  return to_string(replica) + " of " + state.agents.at(record->agent).name;
}

std::string display_name(const State& state, const std::vector<ReplicaId>& replicas) {
  std::string names;
  const std::size_t named = std::min(replicas.size(), kNamedMax);
  for (std::size_t i = 0; i < named; ++i) {
    names += (i == 0 ? "" : ", ") + display_name(state, replicas[i]);
  }
  if (replicas.size() > named) names += " and " + std::to_string(replicas.size() - named) + " more";
  return names;
}

}  // namespace shoal::coordinator
