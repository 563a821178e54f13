// The records that the core keeps in memory.
#pragma once

#include <utility>

#include "base/digest.h"
#include "base/fields.h"
#include "base/flat_map.h"
#include "coordinator/core/records/records.h"

namespace shoal::coordinator {

using ContributionKey = std::pair<RoundKey, ReplicaId>;
using LinkKey = std::pair<AgentId, AgentId>;

// What the store has, too: equal after a restart. Only Transaction changes it.
struct DurableState {
  CounterRecord counters;
  FlatMap<JobId, JobRecord> jobs;
  FlatMap<AgentId, AgentRecord> agents;
  FlatMap<ReplicaId, ReplicaRecord> replicas;  // live ones
  FlatMap<RoundKey, RoundRecord> rounds;       // of live jobs: unfinished and last committed
  FlatMap<ContributionKey, ContributionRecord> contributions;  // of those rounds
  FlatMap<CheckpointId, CheckpointRecord> checkpoints;         // writing, uploading, stored
  FlatMap<LinkKey, LinkRecord> links;                          // from whom to whom

  Digest digest() const;  // without the fields that no record keeps
};
constexpr auto fields_of(Of<DurableState>) {
  using T = DurableState;
  return fields<&T::counters, &T::jobs, &T::agents, &T::replicas, &T::rounds, &T::contributions,
                &T::checkpoints, &T::links>();
}

}  // namespace shoal::coordinator
