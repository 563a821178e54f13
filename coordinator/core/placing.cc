#include "coordinator/core/placing.h"

#include <algorithm>

#include "coordinator/core/checkpoints.h"
#include "coordinator/core/drain.h"
#include "coordinator/core/event_kinds.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/rounds.h"

namespace shoal::coordinator {
namespace {

bool device_is_taken(const State& state, AgentId agent, std::int32_t device) {
  return std::any_of(state.replicas.begin(), state.replicas.end(), [&](const auto& entry) {
    return entry.second.agent == agent && entry.second.device == device;
  });
}

std::string domain_of(const AgentRecord& agent) {
  for (const auto& [key, value] : agent.labels) {
    if (key == "region") return value;
  }
  return agent.host;
}

PlacedReplica placed_replica(const State& state, const ReplicaRecord& replica) {
  PlacedReplica placed{.id = replica.id, .stage = replica.stage};
  placed.loading = replica.held_round < 0;
  placed.leaving = is_leaving(state, replica);
  for (const Device& device : state.agents.at(replica.agent).devices) {
    if (device.index != replica.device) continue;
    placed.memory = device.memory;
    placed.gflops = device.gflops;
  }
  return placed;
}

// What placement would say if every known device were free.
PlacementDecision on_every_device(const Turn& turn, const JobSpec& spec) {
  PlacementInput input = placement_input(turn, JobRecord{.spec = spec});
  input.free.clear();
  for (const auto& [id, agent] : turn.state().agents) {
    if (agent.state == AgentState::kGone) continue;
    for (const Device& device : agent.devices) {
      input.free.push_back({id, device.index, device.memory, device.gflops, domain_of(agent)});
    }
  }
  input.devices_known = static_cast<std::int64_t>(input.free.size());
  return decide_placement(input);
}

void carry_out(Turn& turn, const swarm::Move& move) {
  const ReplicaRecord ended = turn.state().replicas.at(move.replica);
  turn.event(Severity::kInfo, event_kind::kReplicaMoved,
             {.job = ended.job, .agent = ended.agent, .replica = ended.id},
             to_string(ended.id) + " leaves stage " + std::to_string(move.from) + " for stage " +
                 std::to_string(move.to) + " (" + to_string(move.reason) + ")");
  release_replica(turn, ended.id, ReleaseReason::kReplaced);
  leave_round(turn, ended);
  leave_checkpoints(turn, ended);
}

swarm::RebalanceOptions rebalance_options(const JobSpec& spec) {
  swarm::RebalanceOptions options;
  options.min_replicas = static_cast<std::int32_t>(spec.swarm.min_replicas);
  options.max_replicas = static_cast<std::int32_t>(max_replicas(spec));
  return options;
}

}  // namespace

PlacementInput placement_input(const Turn& turn, const JobRecord& job) {
  const State& state = turn.state();
  PlacementInput input;
  input.spec = job.spec;
  input.bytes_per_s = turn.options().reduce_bytes_per_s;
  input.cut = cut_of(job);
  if (input.cut.empty() && job.spec.swarm.stages == 1) input.cut = whole_model(job.spec);
  for (const ReplicaId id : live_replicas(state, job.id)) {
    input.live.push_back(placed_replica(state, state.replicas.at(id)));
  }
  for (const auto& [id, presence] : state.presence) {
    const AgentRecord& agent = state.agents.at(id);
    if (agent.state == AgentState::kGone || agent.state == AgentState::kDraining) continue;
    if (agent.cordoned) continue;
    for (const Device& device : agent.devices) {
      ++input.devices_known;
      if (!presence.connected || device_is_taken(state, id, device.index)) continue;
      const Instant* rest = state.resting_until.find({id, device.index});
      input.free.push_back({id, device.index, device.memory, device.gflops, domain_of(agent),
                            state.refusals.contains({job.id, id}),
                            rest != nullptr && turn.now() < *rest});
    }
  }
  return input;
}

PlacementDecision plan_job(const Turn& turn, const JobSpec& spec) {
  PlacementDecision decision = decide_placement(placement_input(turn, JobRecord{.spec = spec}));
  if (decision.missing > 0 && decision.reason == PlacementReason::kPlaced) {
    decision.reason = PlacementReason::kTooFewDevices;
  }
  return decision;
}

std::string why_no_device_fits(const Turn& turn, const JobSpec& spec) {
  const PlacementDecision decision = on_every_device(turn, spec);
  if (decision.reason != PlacementReason::kNoDeviceFits) return {};
  return explain(decision) +
         "; use fewer layers, a smaller hidden size, a smaller train.microbatch or more "
         "swarm.stages";
}

void move_in_emergency(Turn& turn, JobId id) {
  const JobRecord& job = turn.state().jobs.at(id);
  for (const swarm::Move& move : decide_emergency(placement_input(turn, job))) {
    carry_out(turn, move);
  }
}

void move_for_balance(Turn& turn, JobId id) {
  const JobRecord& job = turn.state().jobs.at(id);
  JobTimers& timers = turn.volatile_state().timers[id];
  if (job.stages.size() < 2 || job.phase != JobPhase::kTraining || !anchors_known(job)) return;
  if (timers.balanced_round == job.committed_round) return;
  timers.balanced_round = job.committed_round;
  if (timers.balance_at && turn.now() < *timers.balance_at) return;
  timers.balance_at = turn.now() + turn.options().rebalance_every;
  if (!timers.rebalancer) timers.rebalancer.emplace(rebalance_options(job.spec));
  const auto decision = timers.rebalancer->step(rebalance_view(placement_input(turn, job)));
  for (const swarm::Move& move : decision.moves) carry_out(turn, move);
}

}  // namespace shoal::coordinator
