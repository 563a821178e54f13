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
  return reason == RejectReason::kNonFinite || reason == RejectReason::kOutlier ||
         reason == RejectReason::kFalseNorm || reason == RejectReason::kFalseAverage;
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

Bytes believed_memory(const AgentRecord& agent, const Device& device) {
  for (const MemoryRefusal& refusal : agent.refusals) {
    if (refusal.device == device.index) return std::min(device.memory, refusal.needed - Bytes(1));
  }
  return device.memory;
}

void remember_refusal(AgentRecord& agent, std::int32_t device, Bytes needed, Instant now) {
  for (MemoryRefusal& refusal : agent.refusals) {
    if (refusal.device != device) continue;
    refusal = {device, std::min(refusal.needed, needed), now};
    return;
  }
  agent.refusals.push_back({device, needed, now});
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
