#include "coordinator/core/state/state.h"

#include <algorithm>

#include "coordinator/core/state/blocks.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {

State load_state(const Options& options, const Snapshot& snapshot) {
  State state;
  state.options = options;
  state.counters = snapshot.counters;
  for (const auto& job : snapshot.jobs) {
    state.jobs.put(job.id, job);
    if (!is_terminal(job.phase)) state.timers.put(job.id, {});
  }
  for (const auto& agent : snapshot.agents) state.agents.put(agent.id, agent);
  for (const auto& replica : snapshot.replicas) {
    if (!is_terminal(replica.state)) state.replicas.put(replica.id, replica);
  }
  const auto wanted = [&](const RoundKey& key) {
    const JobRecord* job = state.jobs.find(key.job);
    return job != nullptr && !is_terminal(job->phase) && key.epoch == job->epoch &&
           (key.round == job->committed_round || key.round == job->committed_round + 1);
  };
  for (const auto& round : snapshot.rounds) {
    if (wanted(round.key)) state.rounds.put(round.key, round);
  }
  for (const auto& contribution : snapshot.contributions) {
    if (!state.rounds.contains(contribution.key)) continue;
    state.contributions.put({contribution.key, contribution.replica}, contribution);
  }
  for (const auto& checkpoint : snapshot.checkpoints) {
    if (checkpoint.state == CheckpointState::kFailed) continue;
    if (checkpoint.state == CheckpointState::kDeleted) continue;
    state.checkpoints.put(checkpoint.id, checkpoint);
  }
  for (const auto& link : snapshot.links) state.links.put({link.from, link.to}, link);
  return state;
}

const RoundRecord* current_round(const State& state, const JobRecord& job) {
  return state.rounds.find({job.id, job.epoch, job.committed_round + 1});
}

const RoundRecord* committed_round(const State& state, const JobRecord& job) {
  return state.rounds.find({job.id, job.epoch, job.committed_round});
}

bool is_reducer(const State& state, const ReplicaRecord& replica) {
  const auto& devices = state.agents.at(replica.agent).devices;
  return std::any_of(devices.begin(), devices.end(), [&](const Device& device) {
    return device.index == replica.device && device.kind == DeviceKind::kReducer;
  });
}

std::vector<ReplicaId> live_replicas(const State& state, JobId job) {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : state.replicas) {
    const bool here = replica.job == job && replica.state != ReplicaState::kAbsent;
    if (here && !is_reducer(state, replica)) ids.push_back(id);
  }
  return ids;
}

std::vector<ReplicaId> absent_replicas(const State& state, JobId job) {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : state.replicas) {
    if (replica.job == job && replica.state == ReplicaState::kAbsent) ids.push_back(id);
  }
  return ids;
}

std::vector<ReplicaId> absent_in_sync_replicas(const State& state, const JobRecord& job,
                                               StageIndex stage) {
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  std::vector<ReplicaId> ids = absent_replicas(state, job.id);
  std::erase_if(ids, [&](ReplicaId id) {
    const ReplicaRecord& replica = state.replicas.at(id);
    const bool may_have_loaded = replica.held_round < 0 && replica.source.key == committed;
    const bool holds =
        replica.epoch == job.epoch && (replica.held_round == job.committed_round ||
                                       may_have_loaded || can_follow(state, committed, id));
    return replica.stage != stage || !holds;
  });
  return ids;
}

std::vector<ReplicaId> live_reducers(const State& state, JobId job) {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : state.replicas) {
    if (replica.job == job && is_reducer(state, replica)) ids.push_back(id);
  }
  return ids;
}

bool can_follow(const State& state, const RoundKey& key, ReplicaId replica) {
  const RoundRecord* round = state.rounds.find(key);
  const ContributionRecord* contribution = state.contributions.find({key, replica});
  if (!is_live(state, replica) || round == nullptr || contribution == nullptr) return false;
  if (round->state != RoundState::kCommitted) return false;
  if (contribution->reducer) return false;
  const Reduce& reduce = reduce_of(*round, *contribution);
  return reduce.given_up ? contribution->member_index >= 0
                         : contribution->average == reduce.average;
}

std::vector<ReplicaId> in_sync_replicas(const State& state, const JobRecord& job) {
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : state.replicas) {
    const bool serves =
        replica.state == ReplicaState::kServing || replica.state == ReplicaState::kAveraging;
    if (replica.job != job.id || !serves || replica.epoch != job.epoch) continue;
    if (replica.held_round == job.committed_round || can_follow(state, committed, id)) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::vector<ReplicaId> in_sync_replicas(const State& state, const JobRecord& job,
                                        StageIndex stage) {
  std::vector<ReplicaId> ids = in_sync_replicas(state, job);
  std::erase_if(ids, [&](ReplicaId id) { return state.replicas.at(id).stage != stage; });
  return ids;
}

std::vector<UnitRange> cut_of(const JobRecord& job) {
  std::vector<UnitRange> cut;
  for (const JobStage& stage : job.stages) cut.push_back(stage.units);
  return cut;
}

bool anchors_known(const JobRecord& job) {
  return std::all_of(job.stages.begin(), job.stages.end(),
                     [](const JobStage& stage) { return static_cast<bool>(stage.anchor); });
}

StageIndex stage_count(const JobRecord& job) { return static_cast<StageIndex>(job.stages.size()); }

StageCover weakest_stage(const State& state, const JobRecord& job) {
  std::vector<std::int64_t> counts(job.stages.size(), 0);
  for (const ReplicaId id : in_sync_replicas(state, job)) {
    ++counts.at(static_cast<std::size_t>(state.replicas.at(id).stage));
  }
  if (counts.empty()) return {};
  const auto fewest = std::min_element(counts.begin(), counts.end());
  return {static_cast<StageIndex>(fewest - counts.begin()), *fewest};
}

double speed_of(const State& state, ReplicaId id) {
  const ReplicaRecord& replica = state.replicas.at(id);
  if (const auto speed = block_speed_of(state, replica)) return *speed;
  for (const Device& device : state.agents.at(replica.agent).devices) {
    if (device.index != replica.device) continue;
    const bool whole = state.jobs.at(replica.job).stages.size() < 2;
    return device.gflops * 1e9 / (whole ? 1 : std::max(1, device.grouped));
  }
  return 0;
}

std::vector<ReplicaId> round_replicas(const State& state, const RoundKey& key) {
  std::vector<ReplicaId> ids;
  for (const auto& [both, contribution] : state.contributions) {
    if (both.first == key && !contribution.reducer) ids.push_back(both.second);
  }
  return ids;
}

std::vector<ReplicaId> with_assigned_data(const State& state, const RoundKey& key) {
  std::vector<ReplicaId> ids = round_replicas(state, key);
  std::erase_if(ids, [&](ReplicaId id) {
    return !is_present(state, id) || !has_assigned_data(state.contributions.at({key, id}));
  });
  return ids;
}

bool is_live(const State& state, ReplicaId replica) { return state.replicas.contains(replica); }

bool is_present(const State& state, ReplicaId id) {
  const ReplicaRecord* replica = state.replicas.find(id);
  return replica != nullptr && replica->state != ReplicaState::kAbsent;
}

bool speaks(const State& state, AgentId agent, std::int32_t protocol) {
  const Presence* presence = state.presence.find(agent);
  return presence != nullptr && presence->protocol >= protocol;
}

const JobRecord* live_job_by_name(const State& state, const std::string& name) {
  for (const auto& [id, job] : state.jobs) {
    if (job.spec.name == name && !is_terminal(job.phase)) return &job;
  }
  return nullptr;
}

}  // namespace shoal::coordinator
