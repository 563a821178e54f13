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
  std::vector<std::string> names;
  for (const ReplicaId replica : replicas) names.push_back(display_name(state, replica));
  return first_of(names);
}

std::string first_of(const std::vector<std::string>& names) {
  std::string text;
  const std::size_t named = std::min(names.size(), kNamedMax);
  for (std::size_t i = 0; i < named; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > named) text += " and " + std::to_string(names.size() - named) + " more";
  return text;
}

}  // namespace shoal::coordinator
