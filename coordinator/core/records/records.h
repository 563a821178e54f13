// Everything the coordinator remembers, one struct per table of migrations/. The state of the core
// is these records and nothing else that matters: loading the tables into a fresh core gives the
// same digest as the live one. Connections, and when an agent was last heard, are volatile
// (state.h).
//
// A field is written by one machine only; the comment names it where that is not obvious.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "coordinator/core/records/agent_record.h"
#include "coordinator/core/records/checkpoint_record.h"
#include "coordinator/core/records/contribution_record.h"
#include "coordinator/core/records/event_record.h"
#include "coordinator/core/records/job_record.h"
#include "coordinator/core/records/link_record.h"
#include "coordinator/core/records/replica_record.h"
#include "coordinator/core/records/round_record.h"
#include "coordinator/core/records/submitted_text.h"

namespace shoal::coordinator {

using Record = std::variant<CounterRecord, JobRecord, AgentRecord, ReplicaRecord, RoundRecord,
                            ContributionRecord, CheckpointRecord, EventRecord, SubmittedText,
                            LinkRecord, ForgottenAgent>;

// What a store gives a starting core: every record but events and texts, replicas that have not
// ended, and of rounds and contributions those of live jobs: the last committed and the next round.
struct Snapshot {
  CounterRecord counters;
  std::vector<JobRecord> jobs;
  std::vector<AgentRecord> agents;
  std::vector<ReplicaRecord> replicas;  // not released or failed
  std::vector<RoundRecord> rounds;
  std::vector<ContributionRecord> contributions;
  std::vector<CheckpointRecord> checkpoints;  // not deleted
  std::vector<LinkRecord> links;
};

// The newest instant in the records of a snapshot. A coordinator's clock never starts before it, in
// case the host's clock was set back.
inline Instant newest_instant(const Snapshot& snapshot) {
  Instant newest;
  const auto look = [&](const auto& records) {
    for (const auto& record : records) newest = std::max(newest, record.updated_at);
  };
  look(snapshot.jobs);
  look(snapshot.agents);
  look(snapshot.replicas);
  look(snapshot.checkpoints);
  return newest;
}

template <typename Job>
auto& stage_of(Job& job, StageIndex index) {
  return job.stages.at(static_cast<std::size_t>(index));
}
using ReduceIndex = std::int32_t;  // of a contribution: only one of the two is ever above 0
template <typename Round>
auto& reduce_at(Round& round, ReduceIndex index) {
  return round.reduces.at(static_cast<std::size_t>(index));
}
inline ReduceIndex reduce_index(const ContributionRecord& c) { return c.stage + c.group; }

}  // namespace shoal::coordinator
