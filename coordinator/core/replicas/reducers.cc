#include "coordinator/core/replicas/reducers.h"

#include <algorithm>

#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/drain.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/health_record.h"

namespace shoal::coordinator {
namespace {

bool wants_reducers(const JobRecord& job) {
  const bool active = job.phase == JobPhase::kGathering || job.phase == JobPhase::kWarming ||
                      job.phase == JobPhase::kTraining || job.phase == JobPhase::kStalled;
  return active && job.spec.sync.topology == Topology::kParamServer &&
         job.spec.sync.algorithm != SyncAlgorithm::kNone;
}

bool may_reduce(const State& state, AgentId id) {
  const AgentRecord& agent = state.agents.at(id);
  const bool there = agent.state != AgentState::kGone && agent.state != AgentState::kDraining;
  return there && state.presence.at(id).connected && !agent.cordoned && !is_quarantined(agent);
}

// Stages of the job that the device does not serve yet, as many as it has room for.
std::vector<Place> places_on(const State& state, const JobRecord& job, AgentId agent,
                             std::int32_t device) {
  std::vector<bool> served(job.stages.size());
  std::int64_t held = 0;
  for (const auto& [id, replica] : state.replicas) {
    if (replica.agent != agent || replica.device != device) continue;
    ++held;
    if (replica.job == job.id) served.at(static_cast<std::size_t>(replica.stage)) = true;
  }
  std::vector<Place> places;
  for (StageIndex stage = 0; stage < stage_count(job) && held < kReplicasPerReducer; ++stage) {
    if (served.at(static_cast<std::size_t>(stage))) continue;
    places.push_back({agent, device, stage});
    ++held;
  }
  return places;
}

// True: the device rests after a failure; the job looks again when that is over.
bool rests(Transaction& tx, JobId job, AgentId agent, std::int32_t device) {
  const Instant* until = tx.state().resting_until.find({agent, device});
  if (until == nullptr || tx.now() >= *until) return false;
  tx.schedule_wakeup(job, *until);
  return true;
}

std::vector<Place> missing_places(Transaction& tx, JobId id) {
  const State& state = tx.state();
  std::vector<Place> places;
  for (const auto& [agent, presence] : state.presence) {
    if (!may_reduce(state, agent) || refuses(tx, id, agent)) continue;
    for (const Device& device : state.agents.at(agent).devices) {
      if (device.kind != DeviceKind::kReducer || rests(tx, id, agent, device.index)) continue;
      const auto here = places_on(state, state.jobs.at(id), agent, device.index);
      places.insert(places.end(), here.begin(), here.end());
    }
  }
  return places;
}

}  // namespace

void place_reducers(Transaction& tx, JobId id) {
  release_drained_reducers(tx, id);
  const JobRecord& job = tx.state().jobs.at(id);
  if (!wants_reducers(job)) return;
  StateSource nothing;
  nothing.key = {id, job.epoch, job.committed_round};
  for (const Place& place : missing_places(tx, id)) assign_replica(tx, id, place, nothing);
}

std::vector<ReplicaId> serving_reducers(const State& state, JobId job, StageIndex stage) {
  std::vector<ReplicaId> ids = live_reducers(state, job);
  std::erase_if(ids, [&](ReplicaId id) {
    const ReplicaRecord& replica = state.replicas.at(id);
    return replica.stage != stage || replica.state != ReplicaState::kServing ||
           is_leaving(state, replica);
  });
  return ids;
}

}  // namespace shoal::coordinator
