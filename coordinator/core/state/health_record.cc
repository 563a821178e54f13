#include "coordinator/core/state/health_record.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

constexpr Duration kPriorLife = seconds(6 * 3600);
constexpr Duration kReplacement = seconds(300);  // a new process, its state, the next round
constexpr std::int32_t kDoublingsMax = 20;

Duration quarantine_of(std::int32_t before, const Options& options) {
  const std::int64_t times = std::int64_t{1} << std::min(before, kDoublingsMax);
  return std::min(options.quarantine_cap, options.quarantine_first * times);
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
  for (const MemoryRefusal& refusal : agent.refusals) {
    if (refusal.device != device.index || !refusal.code.empty()) continue;
    return std::min(device.memory, refusal.needed - Bytes(1));
  }
  return device.memory;
}

bool ran_out(const AgentRecord& agent, const Device& device, const TrainerSpec& trainer) {
  const std::string name = program_name(trainer);
  return !name.empty() && std::ranges::any_of(agent.refusals, [&](const MemoryRefusal& refusal) {
    return refusal.device == device.index && refusal.code == name;
  });
}

void remember_refusal(AgentRecord& agent, const TrainerSpec& trainer,
                      const MemoryRefusal& refusal) {
  const std::string name = program_name(trainer);
  const Bytes needed = name.empty() ? refusal.needed : Bytes();
  for (MemoryRefusal& known : agent.refusals) {
    if (known.device != refusal.device || known.code != name) continue;
    known = {known.device, std::min(known.needed, needed), refusal.at, name};
    return;
  }
  const auto is_of_program = [](const MemoryRefusal& known) { return !known.code.empty(); };
  const auto count = std::ranges::count_if(agent.refusals, is_of_program);
  if (!name.empty() && static_cast<std::size_t>(count) >= kProgramRefusalsMax) {
    agent.refusals.erase(std::ranges::find_if(agent.refusals, is_of_program));
  }
  agent.refusals.push_back({refusal.device, needed, refusal.at, name});
}

void forget_past_refusals(AgentRecord& agent, const std::vector<Device>& devices, bool restarted) {
  const auto is_unchanged = [&](const Device& before) {
    return std::ranges::any_of(devices, [&](const Device& now) {
      // Not by name and memory: a hello tells those of the driver, a trainer those it measured.
      return now.index == before.index;
    });
  };
  std::erase_if(agent.refusals, [&](const MemoryRefusal& refusal) {
    if (restarted && !refusal.code.empty()) return true;
    return std::ranges::none_of(agent.devices, [&](const Device& before) {
      return before.index == refusal.device && is_unchanged(before);
    });
  });
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
