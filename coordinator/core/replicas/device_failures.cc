#include "coordinator/core/replicas/device_failures.h"

#include <algorithm>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/state/health_record.h"

namespace shoal::coordinator {
namespace {

constexpr std::int32_t kDoublingsMax = 5;  // of the rest after a load of a checkpoint that failed
constexpr std::int64_t kShareDivisor = 4;  // at most every fourth device is cordoned
constexpr std::size_t kReasonMax = 300;    // bytes of a stored reason
using Failures = std::vector<DeviceFailures::Failure>;

// Failures that a broken device, its driver or its host can cause. A digest that differs may be the
// fault of the replica that sent the state.
bool may_be_of_device(ReplicaFailure failure) {
  switch (failure) {
    case ReplicaFailure::kTrainerExited:
    case ReplicaFailure::kDeviceLost:
    case ReplicaFailure::kUnresponsive:
    case ReplicaFailure::kInternal:
      return true;
    case ReplicaFailure::kNonFiniteLoss:
    case ReplicaFailure::kModelDoesNotFit:
    case ReplicaFailure::kDigestMismatch:
    case ReplicaFailure::kDataMissing:
    case ReplicaFailure::kDataInvalid:
    case ReplicaFailure::kOutOfMemory:
    case ReplicaFailure::kSourceLost:
    case ReplicaFailure::kStale:
    case ReplicaFailure::kAgentLost:
    case ReplicaFailure::kAgentRestarted:
    case ReplicaFailure::kPeerUnreachable:
    case ReplicaFailure::kTooSlow:
      return false;
  }
  return false;
}

// Replicas of the job that train on other devices.
std::vector<ReplicaId> others_in_training(const State& state, const ReplicaRecord& ended) {
  const JobRecord& job = state.jobs.at(ended.job);
  if (job.phase != JobPhase::kTraining) return {};
  std::vector<ReplicaId> others = in_sync_replicas(state, job);
  std::erase_if(others, [&](ReplicaId id) {
    const ReplicaRecord& other = state.replicas.at(id);
    const bool here = other.agent == ended.agent && other.device == ended.device;
    return here || id == ended.id || !is_within_reach(state, id);
  });
  return others;
}

bool job_continues_with(const State& state, const JobRecord& job,
                        const std::vector<ReplicaId>& others) {
  const std::int64_t least = std::max<std::int64_t>(1, job.spec.swarm.min_replicas);
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    const auto serving = std::ranges::count_if(
        others, [&](ReplicaId id) { return state.replicas.at(id).stage == stage; });
    if (serving < least) return false;
  }
  return !others.empty();
}

// One of them has been there since before the first of the failures.
bool has_witness(const State& state, const std::vector<ReplicaId>& others,
                 const Failures& failures) {
  return std::ranges::any_of(others, [&](ReplicaId id) {
    return state.replicas.at(id).created_at <= failures.front().at;
  });
}

std::string reason_of(const ReplicaRecord& ended) {
  std::string reason = to_string(ended.failure) + (ended.detail.empty() ? "" : ": " + ended.detail);
  if (reason.size() > kReasonMax) {
    std::size_t end = kReasonMax;
    while (end > 0 && (reason[end] & 0xC0) == 0x80) --end;  // not within a UTF-8 sequence
    reason.resize(end);
    reason += "…";
  }
  return reason;
}

std::string listed(const std::vector<std::string>& reasons) {
  std::string text;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    text += (i == 0 ? "" : "; ") + std::to_string(i + 1) + ". " + reasons[i];
  }
  return text;
}

std::string what_is_cordoned(const AgentRecord& agent, const TrainerSpec& trainer) {
  const std::string program = program_name(trainer);
  return program.empty()
             ? "the device is cordoned: mend it, then run shoal agent uncordon " + agent.name
             : "the device is cordoned for the program " + program +
                   ": submit a program that runs there, or run shoal agent uncordon " + agent.name;
}

// Cordons the device, or says why it may not.
void report_failing(Transaction& tx, const ReplicaRecord& ended, const Failures& failures) {
  const AgentRecord& agent = tx.state().agents.at(ended.agent);
  const JobSpec& spec = tx.state().jobs.at(ended.job).spec;
  const Cordons cordons = count_cordons(tx.state(), spec.trainer);
  DeviceRefusal refusal{.device = ended.device, .needed = Bytes(), .at = tx.now()};
  refusal.job = ended.job;
  for (const auto& failure : failures) refusal.reasons.push_back(failure.reason);
  const std::string what = "replicas on device " + std::to_string(ended.device) + " of " +
                           agent.name + " failed " + std::to_string(failures.size()) +
                           " times in a row while other replicas of " + spec.name + " trained (" +
                           listed(refusal.reasons) + "); ";
  tx.event(Severity::kWarning, event_kind::kDeviceFailing, {.job = ended.job, .agent = ended.agent},
           what + (cordons.may_add() ? what_is_cordoned(agent, spec.trainer)
                                     : what_is_not_cordoned(agent, cordons)));
  if (!cordons.may_add()) return;
  const auto device = std::ranges::find(agent.devices, ended.device, &Device::index);
  const std::string uuid = device == agent.devices.end() ? "" : device->uuid;
  tx.note({NoteDecision::Kind::kCordonDevice, ended.agent, ended.device, uuid,
           to_string(ended.job) + ": " + listed(refusal.reasons)});
  cordon_device(tx.agent(ended.agent), spec.trainer, std::move(refusal));
}

void count_failure(Transaction& tx, const ReplicaRecord& ended,
                   const std::vector<ReplicaId>& others) {
  DeviceFailures& known = tx.volatile_state().device_failures[{ended.agent, ended.device}];
  if (known.job != ended.job) known.of_job.clear();
  known.job = ended.job;
  known.at = tx.now();
  ++known.in_row;
  known.of_job.push_back({tx.now(), reason_of(ended)});
  if (std::ssize(known.of_job) < tx.options().device_failures_max) return;
  if (!has_witness(tx.state(), others, known.of_job)) {
    known.of_job.erase(known.of_job.begin());
    return;
  }
  const Failures failures = std::exchange(known.of_job, {});
  report_failing(tx, ended, failures);
}

Duration doubled(Duration rest, std::int32_t times, Duration most) {
  for (; times > 0 && rest < most; --times) rest = rest * 2;
  return std::min(rest, most);
}

// A checkpoint that cannot be loaded is tried ever more rarely: each failure without a commit
// doubles the rest.
Duration rest_of_job(const Transaction& tx, const ReplicaRecord& ended) {
  const Options& options = tx.options();
  const bool loaded = ended.held_round >= 0;
  if (loaded || ended.source.kind != SourceKind::kCheckpoint) return options.replica_backoff;
  const std::int32_t failures = tx.state().jobs.at(ended.job).failures_in_row;
  return options.replica_backoff * (std::int64_t{1} << std::min(failures, kDoublingsMax));
}

}  // namespace

bool Cordons::may_add() const {
  return cordoned < std::max<std::int64_t>(1, devices / kShareDivisor);
}

Cordons count_cordons(const State& state, const TrainerSpec& trainer) {
  Cordons counted;
  for (const auto& [id, agent] : state.agents) {
    if (agent.state == AgentState::kGone) continue;
    for (const Device& device : agent.devices) {
      if (device.kind == DeviceKind::kReducer) continue;
      ++counted.devices;
      counted.cordoned += is_cordoned(agent, device.index, trainer);
    }
  }
  return counted;
}

std::string what_is_not_cordoned(const AgentRecord& agent, const Cordons& cordons) {
  return "the device is not cordoned, because " + std::to_string(cordons.cordoned) + " of " +
         std::to_string(cordons.devices) +
         " devices are: look for a common cause, or run shoal agent cordon " + agent.name;
}

bool note_device_failure(Transaction& tx, const ReplicaRecord& ended) {
  const State& state = tx.state();
  VolatileState& process = tx.volatile_state();
  const DeviceKey device{ended.agent, ended.device};
  const bool possible = may_be_of_device(ended.failure) && !is_reducer(state, ended);
  const auto others = possible ? others_in_training(state, ended) : std::vector<ReplicaId>();
  const bool of_device = job_continues_with(state, state.jobs.at(ended.job), others);
  if (of_device) count_failure(tx, ended, others);
  const DeviceFailures* known = process.device_failures.find(device);
  const Options& options = tx.options();
  const Duration rest =
      of_device ? doubled(options.replica_backoff, known->in_row - 1, options.replica_backoff_max)
                : rest_of_job(tx, ended);
  process.resting_until.put(device, tx.now() + rest);
  return of_device;
}

void note_device_works(Transaction& tx, ReplicaId id) {
  const ReplicaRecord* replica = tx.state().replicas.find(id);
  if (replica == nullptr) return;
  tx.volatile_state().device_failures.erase({replica->agent, replica->device});
}

Duration rest_of(const Transaction& tx, const JobRecord& job, const DeviceKey& device) {
  const Instant* known = tx.state().resting_until.find(device);
  if (known == nullptr) return {};
  Instant until = *known;
  const DeviceFailures* failures = tx.state().device_failures.find(device);
  if (failures != nullptr && job.phase != JobPhase::kTraining) {
    until = std::min(until, failures->at + tx.options().rest_awaited);
  }
  return std::max(until - tx.now(), Duration());
}

void forget_device_failures(Transaction& tx, AgentId agent) {
  for (const Device& device : tx.state().agents.at(agent).devices) {
    tx.volatile_state().device_failures.erase({agent, device.index});
    tx.volatile_state().resting_until.erase({agent, device.index});
    tx.volatile_state().slow_devices.erase({agent, device.index});
  }
}

bool has_cordoned_device(const AgentRecord& agent) {
  return std::ranges::any_of(agent.refusals, [](const DeviceRefusal& refusal) {
    return refusal.kind != DeviceRefusalKind::kMemory;
  });
}

}  // namespace shoal::coordinator
