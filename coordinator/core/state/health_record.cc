#include "coordinator/core/state/health_record.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

constexpr Duration kPriorLife = seconds(6 * 3600);
constexpr Duration kReplacement = seconds(300);  // a new process, its state, the next round
constexpr std::int32_t kDoublingsMax = 20;
constexpr std::int32_t kNotThere = -1;  // the index of a device whose UUID is gone

Duration quarantine_of(std::int32_t before, const Options& options) {
  const std::int64_t times = std::int64_t{1} << std::min(before, kDoublingsMax);
  return std::min(options.quarantine_cap, options.quarantine_first * times);
}

bool is_of_memory(const DeviceRefusal& refusal) {
  return refusal.kind == DeviceRefusalKind::kMemory;
}

// At most kProgramRefusalsMax of each kind, of all programs together: the oldest goes.
void make_room_for_program(AgentRecord& agent, const DeviceRefusal& added) {
  if (added.code.empty()) return;
  const auto is_alike = [&](const DeviceRefusal& known) {
    return !known.code.empty() && known.kind == added.kind;
  };
  const auto count = std::ranges::count_if(agent.refusals, is_alike);
  if (static_cast<std::size_t>(count) < kProgramRefusalsMax) return;
  agent.refusals.erase(std::ranges::find_if(agent.refusals, is_alike));
}

}  // namespace

bool is_violation(RejectReason reason) {
  return reason == RejectReason::kOutlier || reason == RejectReason::kFalseNorm ||
         reason == RejectReason::kFalseAverage;
}

HealthRecord after_violation(HealthRecord health_record, RejectReason reason, Instant now,
                             const Options& options) {
  if (now >= health_record.last_violation_at + options.quarantine_forgotten)
    health_record.quarantines = 0;
  if (now >= health_record.last_violation_at + options.quarantine_window)
    health_record.violations = 0;
  ++health_record.violations;
  health_record.last_violation_at = now;
  health_record.violation_reason = reason;
  const bool proved = reason == RejectReason::kFalseAverage;
  if (health_record.violations < options.quarantine_violations && !proved) return health_record;
  health_record.violations = 0;
  health_record.quarantined_until = now + quarantine_of(health_record.quarantines, options);
  ++health_record.quarantines;
  return health_record;
}

std::string program_name(const TrainerSpec& trainer) {
  if (trainer.kind != TrainerKind::kPython) return {};
  return trainer.code.empty() ? trainer.entry : trainer.code;
}

Bytes believed_memory(const AgentRecord& agent, const Device& device, const TrainerSpec& trainer) {
  if (ran_out(agent, device, trainer)) return Bytes();
  if (!program_name(trainer).empty()) return device.memory;
  for (const DeviceRefusal& refusal : agent.refusals) {
    if (!is_of_memory(refusal) || refusal.device != device.index || !refusal.code.empty()) continue;
    return std::min(device.memory, refusal.needed - Bytes(1));
  }
  return device.memory;
}

bool ran_out(const AgentRecord& agent, const Device& device, const TrainerSpec& trainer) {
  const std::string name = program_name(trainer);
  return !name.empty() && std::ranges::any_of(agent.refusals, [&](const DeviceRefusal& refusal) {
    return is_of_memory(refusal) && refusal.device == device.index && refusal.code == name;
  });
}

void remember_refusal(AgentRecord& agent, const TrainerSpec& trainer,
                      const DeviceRefusal& refusal) {
  const std::string name = program_name(trainer);
  const Bytes needed = name.empty() ? refusal.needed : Bytes();
  for (DeviceRefusal& known : agent.refusals) {
    if (!is_of_memory(known) || known.device != refusal.device || known.code != name) continue;
    known = {known.device, std::min(known.needed, needed), refusal.at, name};
    return;
  }
  const DeviceRefusal added{refusal.device, needed, refusal.at, name};
  make_room_for_program(agent, added);
  agent.refusals.push_back(added);
}

bool is_same_device(const Device& a, const Device& b) {
  return a.uuid.empty() || b.uuid.empty() ? a.index == b.index : a.uuid == b.uuid;
}

bool are_renumbered(const std::vector<Device>& before, const std::vector<Device>& now) {
  return std::ranges::any_of(before, [&](const Device& old) {
    return std::ranges::any_of(now, [&](const Device& device) {
      return device.index == old.index && !is_same_device(device, old);
    });
  });
}

namespace {

void renumber_refusals(AgentRecord& agent, const std::vector<Device>& devices) {
  for (DeviceRefusal& refusal : agent.refusals) {
    const auto before = std::ranges::find(agent.devices, refusal.device, &Device::index);
    if (refusal.uuid.empty() && before != agent.devices.end()) refusal.uuid = before->uuid;
    if (refusal.uuid.empty()) continue;
    const auto now = std::ranges::find(devices, refusal.uuid, &Device::uuid);
    const bool says_uuids = std::ranges::any_of(devices, [](auto& d) { return !d.uuid.empty(); });
    if (now != devices.end()) refusal.device = now->index;
    if (now == devices.end() && says_uuids) refusal.device = kNotThere;
  }
}

}  // namespace

void forget_past_refusals(AgentRecord& agent, const std::vector<Device>& devices, bool restarted) {
  renumber_refusals(agent, devices);
  const auto is_unchanged = [&](const Device& before) {
    return std::ranges::any_of(devices, [&](const Device& now) {
      // Not by name and memory: a hello tells those of the driver, a trainer those it measured.
      return now.index == before.index;
    });
  };
  std::erase_if(agent.refusals, [&](const DeviceRefusal& refusal) {
    if (restarted && !refusal.code.empty()) return true;
    if (!is_of_memory(refusal) || !refusal.uuid.empty()) return false;
    return std::ranges::none_of(agent.devices, [&](const Device& before) {
      return before.index == refusal.device && is_unchanged(before);
    });
  });
}

bool is_cordoned(const AgentRecord& agent, std::int32_t device, const TrainerSpec& trainer) {
  return std::ranges::any_of(agent.refusals, [&](const DeviceRefusal& refusal) {
    const bool of_job = refusal.code.empty() || refusal.code == program_name(trainer);
    return !is_of_memory(refusal) && refusal.device == device && of_job;
  });
}

void cordon_device(AgentRecord& agent, const TrainerSpec& trainer, DeviceRefusal refusal) {
  refusal.kind = DeviceRefusalKind::kFailing;
  refusal.code = program_name(trainer);
  make_room_for_program(agent, refusal);
  agent.refusals.push_back(std::move(refusal));
}

const DeviceRefusal* unhealthy_of(const AgentRecord& agent, std::int32_t device) {
  const auto found = std::ranges::find_if(agent.refusals, [&](const DeviceRefusal& refusal) {
    return refusal.kind == DeviceRefusalKind::kUnhealthy && refusal.device == device;
  });
  return found == agent.refusals.end() ? nullptr : &*found;
}

Duration expected_life(const Uptime& uptime, Instant now) {
  const Duration stay = uptime.since == Instant() ? Duration() : now - uptime.since;
  const Duration present = seconds(uptime.present_s) + stay + kPriorLife;
  return present / (uptime.losses + 1);
}

double availability(const Uptime& uptime, Instant now) {
  const double life = expected_life(uptime, now).seconds();
  return life / (life + kReplacement.seconds());
}

void end_stay(Uptime& uptime, Instant now) {
  if (uptime.since == Instant()) return;
  uptime.present_s += (now - uptime.since).ms() / 1000;
  uptime.since = {};
  ++uptime.losses;
}

}  // namespace shoal::coordinator
