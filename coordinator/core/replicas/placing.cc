#include "coordinator/core/replicas/placing.h"

#include <algorithm>
#include <cmath>

#include "base/number_text.h"
#include "coordinator/core/decisions/block_speeds.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/copies.h"
#include "coordinator/core/replicas/device_failures.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/replicas/slow_joiners.h"
#include "coordinator/core/state/blocks.h"
#include "coordinator/core/state/health_record.h"
#include "coordinator/core/state/measured_lines.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {
namespace {

constexpr double kToldAgain = 0.25;  // of a forecast that was told

// The memory of one replica per stage of the job.
std::vector<Bytes> memory_of(const JobRecord& job) {
  std::vector<Bytes> memory;
  const swarm::CostModel model(job.spec, swarm::cost_options(job.spec));
  for (const UnitRange range : cut_of(job)) memory.push_back(model.memory(range));
  return memory;
}

// Whether a living replica on this device waits for the decision of its job
// (coordinator/core/restoring.h).
bool is_claimed(const State& state, AgentId agent, std::int32_t device) {
  return std::ranges::any_of(state.restoring, [&](const auto& entry) {
    return std::ranges::any_of(entry.second.claims, [&](const Claim& claim) {
      return claim.agent == agent && claim.held.device == device;
    });
  });
}

bool is_of(const std::vector<JobId>& jobs, const ReplicaRecord& replica) {
  return std::ranges::find(jobs, replica.job) != jobs.end();
}

bool is_whole(const JobRecord& job) { return job.spec.swarm.stages == 1 || job.stages.size() == 1; }

// A model of one stage is trained by all devices of a replica group, a stage by its leader.
double gflops_of(const JobRecord& job, const Device& device) {
  return is_whole(job) ? device.gflops : device.gflops / std::max(1, device.grouped);
}

BlockTimes at_speed(BlockTimes times, double share) {
  for (Duration* part : {&times.block, &times.embedding, &times.head}) {
    part->ns = static_cast<std::int64_t>(static_cast<double>(part->ns) / share);
  }
  return times;
}

// The leader of a replica group measures alone.
std::optional<BlockTimes> block_for(const JobRecord& job, const AgentRecord& agent,
                                    const Device& device, const Digest& shape) {
  const auto block = block_of(agent, device, shape);
  if (!block || !is_whole(job)) return block;
  return at_speed(*block, std::max(1, device.grouped));
}

void set_speed(const JobRecord& job, const Device& device, FreeDevice& free) {
  free.gflops = gflops_of(job, device);
  if (free.gflops > 0) free.group = device.gflops / free.gflops;
}

// The replicas of all jobs, sorted by their devices. A placement sorts them once, because each
// device looks its own replicas up.
using Occupants = std::vector<std::pair<DeviceKey, const ReplicaRecord*>>;

Occupants occupants_of_devices(const State& state) {
  Occupants occupants;
  occupants.reserve(state.replicas.size());
  for (const auto& [id, replica] : state.replicas) {
    occupants.emplace_back(DeviceKey{replica.agent, replica.device}, &replica);
  }
  std::ranges::stable_sort(occupants, {}, &Occupants::value_type::first);
  return occupants;
}

auto on_device(const Occupants& occupants, const DeviceKey& device) {
  return std::ranges::equal_range(occupants, device, {}, &Occupants::value_type::first);
}

// What this job may still use of the device; none: it belongs to another one, or to a job of one
// stage, which uses devices as a whole.
std::optional<FreeDevice> what_is_free(const State& state, const JobRecord& job,
                                       const std::vector<Bytes>& memory, const AgentRecord& agent,
                                       const Device& device, const Occupants& occupants,
                                       const std::vector<JobId>& gone) {
  if (is_claimed(state, agent.id, device.index)) return std::nullopt;
  FreeDevice free{.agent = agent.id, .device = device.index};
  free.memory = believed_memory(agent, device, job.spec.trainer);
  free.ran_out = ran_out(agent, device, job.spec.trainer);
  set_speed(job, device, free);
  for (const auto& [key, replica] : on_device(occupants, {agent.id, device.index})) {
    if (is_of(gone, *replica)) continue;
    if (replica->job != job.id || memory.size() < 2) return std::nullopt;
    free.holds.push_back(replica->stage);
    free.memory -= memory.at(static_cast<std::size_t>(replica->stage));
  }
  return free;
}

void slow_down(FreeDevice& free, double share) {
  free.gflops *= share;
  if (free.block && share > 0) free.block = at_speed(*free.block, share);
}

// The share of its promised speed at which a device was last seen to compute, if it was slow.
double seen_share(const Transaction& tx, const DeviceKey& device) {
  constexpr Duration kKnownFor = seconds(3600);  // whatever slowed it down may be over
  const SlowDevice* slow = tx.state().slow_devices.find(device);
  return slow == nullptr || tx.now() - slow->at > kKnownFor ? 1 : slow->ratio;
}

// What others take of a device without replicas. The replicas of an occupied one are measured.
double foreign_share_of(const Transaction& tx, const Occupants& occupants, AgentId agent,
                        const Device& device) {
  if (!on_device(occupants, {agent, device.index}).empty()) return 0;
  return foreign_share(tx.state().foreign_loads.find({agent, device.uuid}), tx.now());
}

// A device rests after a failure. One whose line is too slow for the rounds of the job is asked
// much later, too.
void note_rest(const Transaction& tx, const JobRecord& job, FreeDevice& free) {
  const bool too_slow = is_too_slow_for(tx, job.id, free.agent);
  const Duration rest = rest_of(tx, job, {free.agent, free.device});
  free.resting = rest > Duration() || too_slow;
  free.rests_long = rest > tx.options().rest_awaited || too_slow;
}

// The weight of a replica whose agent is out of reach. It may never come back, so a joining device
// must not be sent to another stage because of it.
constexpr double kOutOfReach = 0.01;

// The stages that the device of this replica has moved away from, within the time in which a move
// must pay.
std::vector<StageIndex> left_lately(const Transaction& tx, const ReplicaRecord& replica) {
  std::vector<StageIndex> stages;
  const JobTimers* timers = tx.state().timers.find(replica.job);
  const auto* all =
      timers == nullptr ? nullptr : timers->left.find({replica.agent, replica.device});
  if (all == nullptr) return stages;
  for (const LeftStage& left : *all) {
    if (tx.now() - left.at < swarm::RebalanceOptions{}.payback_max) stages.push_back(left.stage);
  }
  return stages;
}

bool takes_work(const AgentRecord& agent) {
  return agent.state != AgentState::kGone && agent.state != AgentState::kDraining &&
         !agent.cordoned && !is_quarantined(agent);
}

// Its device holds an absent replica too, of whose stage it cannot become another one there.
bool is_beside_an_absent_one(const State& state, const ReplicaRecord& replica) {
  return std::ranges::any_of(state.replicas, [&](const auto& entry) {
    const ReplicaRecord& other = entry.second;
    return other.state == ReplicaState::kAbsent && other.id != replica.id &&
           other.agent == replica.agent && other.device == replica.device;
  });
}

PlacedReplica placed_replica(const Transaction& tx, const ReplicaRecord& replica,
                             const Digest& shape) {
  const State& state = tx.state();
  const AgentRecord& agent = state.agents.at(replica.agent);
  PlacedReplica placed{.id = replica.id, .stage = replica.stage};
  placed.agent = replica.agent;
  placed.device = replica.device;
  placed.domain = domain_of(agent);
  placed.loading = replica.held_round < 0;
  placed.leaving = is_leaving(state, replica);
  // An agent that takes no new work could not load another stage.
  placed.stays = keeps_what_is_needed(state, replica) || !takes_work(agent) ||
                 is_beside_an_absent_one(state, replica) ||
                 is_cordoned(agent, replica.device, state.jobs.at(replica.job).spec.trainer);
  placed.availability = availability_of(tx, agent);
  placed.expected_life = expected_life(agent.uptime, tx.now());
  if (const SeenService* service = state.service.find(replica.id)) placed.service = *service;
  placed.left = left_lately(tx, replica);
  for (const Device& device : agent.devices) {
    if (device.index != replica.device) continue;
    placed.memory = believed_memory(agent, device, state.jobs.at(replica.job).spec.trainer);
    placed.gflops = gflops_of(state.jobs.at(replica.job), device);
    placed.block = block_for(state.jobs.at(replica.job), agent, device, shape);
  }
  return placed;
}

Whereabouts whereabouts_of(const AgentRecord& agent, const FlatMap<AgentId, AgentLine>& lines) {
  const AgentLine* line = lines.find(agent.id);
  return {agent.host, site_of(agent), line == nullptr ? AgentLine{} : *line};
}

// What placement would say if every known device were free.
PlacementDecision on_every_device(const Transaction& tx, const JobSpec& spec) {
  PlacementInput input = placement_input(tx, JobRecord{.spec = spec});
  input.free.clear();
  for (const auto& [id, agent] : tx.state().agents) {
    if (agent.state == AgentState::kGone) continue;
    for (const Device& device : agent.devices) {
      if (device.kind == DeviceKind::kReducer) continue;
      input.free.push_back({.agent = id,
                            .device = device.index,
                            .memory = believed_memory(agent, device, spec.trainer),
                            .gflops = gflops_of({.spec = spec}, device),
                            .domain = domain_of(agent)});
    }
  }
  input.devices_known = static_cast<std::int64_t>(input.free.size());
  return decide_placement(input);
}

// The devices that all jobs of an owner hold. A device with several stages counts once.
std::int64_t devices_held_by(const State& state, const std::string& owner,
                             const std::vector<JobId>& gone) {
  std::vector<std::pair<AgentId, std::int32_t>> held;
  for (const auto& [id, replica] : state.replicas) {
    const JobRecord* job = state.jobs.find(replica.job);
    if (is_of(gone, replica)) continue;
    if (job != nullptr && job->owner == owner) held.emplace_back(replica.agent, replica.device);
  }
  std::sort(held.begin(), held.end());
  return std::unique(held.begin(), held.end()) - held.begin();
}

bool trains(const AgentRecord& agent) {
  return std::ranges::any_of(
      agent.devices, [](const Device& device) { return device.kind != DeviceKind::kReducer; });
}

}  // namespace

double availability_of(const Transaction& tx, const AgentRecord& agent) {
  const Presence* presence = tx.state().presence.find(agent.id);
  const bool here = presence != nullptr && presence->connected;
  return availability(agent.uptime, tx.now()) * (here ? 1 : kOutOfReach);
}

std::string domain_of(const AgentRecord& agent) {
  for (const auto& [key, value] : agent.labels) {
    if (key == "region") return value;
  }
  return agent.host;
}

PlacementInput placement_input(const Transaction& tx, const JobRecord& job,
                               const std::vector<JobId>& gone) {
  const State& state = tx.state();
  PlacementInput input;
  input.spec = job.spec;
  input.has_trained = job.committed_round > 0;
  input.cut = cut_of(job);
  if (input.cut.empty() && job.spec.swarm.stages == 1) input.cut = whole_model(job.spec);
  const Digest shape = shape_of(job.spec);
  const FlatMap<AgentId, AgentLine> lines = lines_of(state, tx.now());
  input.sites = site_lines(state, tx.now());
  for (const ReplicaId id : live_replicas(state, job.id)) {
    PlacedReplica& placed =
        input.live.emplace_back(placed_replica(tx, state.replicas.at(id), shape));
    placed.at = whereabouts_of(state.agents.at(placed.agent), lines);
  }
  const std::vector<Bytes> memory = memory_of(job);
  const Occupants occupants = occupants_of_devices(state);
  for (const auto& [id, presence] : state.presence) {
    const AgentRecord& agent = state.agents.at(id);
    if (!takes_work(agent)) continue;
    for (const Device& device : agent.devices) {
      if (device.kind == DeviceKind::kReducer) continue;
      ++input.devices_known;
      if (!presence.connected) continue;
      if (job.recut_from && presence.protocol < kFirstWithOtherCuts) continue;
      if (is_cordoned(agent, device.index, job.spec.trainer)) {
        ++input.cordoned;
        continue;
      }
      if (why_not_run(job.spec.trainer, job.owner, agent.programs)) {
        ++input.forbidden;
        continue;
      }
      auto free = what_is_free(state, job, memory, agent, device, occupants, gone);
      if (!free) continue;
      free->domain = domain_of(agent);
      free->at = whereabouts_of(agent, lines);
      free->availability = availability(agent.uptime, tx.now());
      free->refused = refuses(tx, job.id, id);
      free->block = block_for(job, agent, device, shape);
      free->foreign = foreign_share_of(tx, occupants, id, device);
      // A replica may have been slow because of others, which counts once.
      slow_down(*free, std::min(seen_share(tx, {id, device.index}), speed_left(free->foreign)));
      note_rest(tx, job, *free);
      input.free.push_back(std::move(*free));
    }
  }
  if (const auto refusal = why_not_run(job.spec.trainer, job.owner, {}); refusal) {
    input.forbidden_why = "not run " + refusal->what + " (start them with " + refusal->option + ")";
  }
  go_by_blocks(input);
  input.quota = tx.options().quotas.of_owner(job.owner);
  if (input.quota > 0) {
    const Bytes needed = memory.empty() ? Bytes() : *std::max_element(memory.begin(), memory.end());
    keep_within_quota(input, devices_held_by(state, job.owner, gone), needed);
  }
  return input;
}

PlacementDecision plan_job(const Transaction& tx, const JobSpec& spec, const std::string& owner) {
  PlacementDecision decision =
      decide_placement(placement_input(tx, JobRecord{.spec = spec, .owner = owner}));
  if (decision.missing > 0 && decision.reason == PlacementReason::kPlaced) {
    decision.reason = PlacementReason::kTooFewDevices;
  }
  return decision;
}

std::string why_no_device_fits(const Transaction& tx, const JobSpec& spec) {
  const PlacementDecision decision = on_every_device(tx, spec);
  if (decision.reason != PlacementReason::kNoDeviceFits) return {};
  return explain(decision) +
         "; use fewer layers, a smaller hidden size, a smaller train.microbatch or more "
         "swarm.stages";
}

std::optional<ProgramRefusal> why_no_agent_runs(const Transaction& tx, const JobSpec& spec,
                                                const std::string& owner) {
  std::optional<ProgramRefusal> refusal;
  for (const auto& [id, presence] : tx.state().presence) {
    const AgentRecord& agent = tx.state().agents.at(id);
    if (!presence.connected || !trains(agent)) continue;
    refusal = why_not_run(spec.trainer, owner, agent.programs);
    if (!refusal) return std::nullopt;
  }
  return refusal;
}

void tell_not_run(Transaction& tx, JobId id) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (job.spec.trainer.kind != TrainerKind::kPython) return;
  auto& told = tx.volatile_state().timers[id].not_run_by;
  std::vector<std::string> names;
  for (const auto& [agent_id, presence] : tx.state().presence) {
    const AgentRecord& agent = tx.state().agents.at(agent_id);
    if (!presence.connected || !trains(agent)) continue;
    if (!why_not_run(job.spec.trainer, job.owner, agent.programs)) {
      told.erase(agent_id);
      continue;
    }
    const AllowedPrograms* before = told.find(agent_id);
    if (before != nullptr && *before == agent.programs) continue;
    told.put(agent_id, agent.programs);
    names.push_back(agent.name);
  }
  if (names.empty()) return;
  const ProgramRefusal refusal = *why_not_run(job.spec.trainer, job.owner, {});
  tx.event(Severity::kInfo, event_kind::kProgramNotRun, {.job = id},
           first_of(names) + (names.size() == 1 ? " does not run " : " do not run ") +
               refusal.what + ", so " + job.spec.name +
               " does not train there (start the agent with " + refusal.option + ")");
}

namespace {

void tell_left_out(Transaction& tx, JobId id, const PlacementDecision& decision) {
  for (const LeftOut& left : decision.left_out) {
    double& told = tx.volatile_state().timers[id].left_out[{left.agent, left.device}];
    if (std::fabs(told - left.with) <= kToldAgain * left.with) continue;
    told = left.with;
    const std::string line = left.line_bytes_per_s > 0
                                 ? "; its line carries " + size_text(left.line_bytes_per_s) + "/s"
                                 : std::string();
    tx.event(Severity::kWarning, event_kind::kDeviceLeftOut, {.job = id, .agent = left.agent},
             "device " + std::to_string(left.device) + " of " +
                 tx.state().agents.at(left.agent).name + " is left out: " +
                 tx.state().jobs.at(id).spec.name + " should train " + three_figures(left.with) +
                 " tokens/s with it and " + three_figures(left.without) + " without it" + line);
  }
}

void tell_too_small(Transaction& tx, JobId id, const PlacementInput& input,
                    const PlacementDecision& decision) {
  for (const FreeDevice& device : input.free) {
    if (device.refused || device.resting || device.ran_out || !device.holds.empty()) continue;
    if (device.memory >= decision.needed) continue;
    Bytes& told = tx.volatile_state().timers[id].too_small[{device.agent, device.device}];
    if (told == device.memory) continue;
    told = device.memory;
    tx.event(Severity::kWarning, event_kind::kDeviceTooSmall, {.job = id, .agent = device.agent},
             "device " + std::to_string(device.device) + " of " +
                 tx.state().agents.at(device.agent).name + " has " +
                 size_text(static_cast<double>(device.memory.count())) + " free; a replica of " +
                 input.spec.name + " needs " +
                 size_text(static_cast<double>(decision.needed.count())) + ", so it is not used");
  }
}

}  // namespace

void tell_unused(Transaction& tx, JobId job, const PlacementInput& input,
                 const PlacementDecision& decision) {
  tell_left_out(tx, job, decision);
  tx.volatile_state().timers[job].unused = decision.left_out;
  if (!input.live.empty()) tell_too_small(tx, job, input, decision);
}

}  // namespace shoal::coordinator
