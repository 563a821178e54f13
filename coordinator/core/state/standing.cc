#include "coordinator/core/state/standing.h"

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

bool is_strike(RejectReason reason) {
  return reason == RejectReason::kNonFinite || reason == RejectReason::kOutlier ||
         reason == RejectReason::kFalseNorm || reason == RejectReason::kFalseAverage;
}

Standing after_strike(Standing standing, RejectReason reason, Instant now, const Options& options) {
  if (now >= standing.struck_at + options.quarantine_forgotten) standing.quarantines = 0;
  if (now >= standing.struck_at + options.quarantine_window) standing.strikes = 0;
  ++standing.strikes;
  standing.struck_at = now;
  standing.strike_reason = reason;
  const bool proved = reason == RejectReason::kFalseAverage;
  if (standing.strikes < options.quarantine_strikes && !proved) return standing;
  standing.strikes = 0;
  standing.quarantined_until = now + quarantine_of(standing.quarantines, options);
  ++standing.quarantines;
  return standing;
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

Duration expected_life(const Attendance& attendance, Instant now) {
  const Duration stay = attendance.since == Instant() ? Duration() : now - attendance.since;
  const Duration present = seconds(attendance.present_s) + stay + kPriorLife;
  return present / (attendance.losses + 1);
}

double availability(const Attendance& attendance, Instant now) {
  const double life = expected_life(attendance, now).seconds();
  return life / (life + kReplacement.seconds());
}

void end_stay(Attendance& attendance, Instant now) {
  if (attendance.since == Instant()) return;
  attendance.present_s += (now - attendance.since).ms() / 1000;
  attendance.since = {};
  ++attendance.losses;
}

}  // namespace shoal::coordinator
