// What an agent's past says about it, and what follows: pure rules over its record.
//
// Quarantine. A contribution of the built-in trainer with a norm far beyond the median, while most
// of its stage is sound, or one that is longer than it was reported, is a violation against its
// agent. Values that are not finite are none (rounds/nonfinite.h), nor is the norm of a program; an
// average that two others made differently is as many as it takes. Options::quarantine_violations
// of them, none more than quarantine_window after the one before, keep the agent from work: it gets
// no replicas and those that it has are released as if it were drained. The first time for
// quarantine_first, then twice as long each time, at most quarantine_cap; an agent that was clean
// for quarantine_forgotten starts over. When most of a stage is rejected it is the job's fault and
// nobody's violation. An operator lifts it with `uncordon`.
//
// Memory. A device on which the built-in trainer ran out of memory is taken to have less than what
// that needed, whatever it says. What a program needs is unknown, so its failure says nothing about
// other jobs: the device is only not given to the same program again. The latter is forgotten when
// the agent restarts, both when the device changes and with `uncordon`.
//
// Cordoned devices. replicas/device_failures.h cordons a device whose replicas fail again and
// again. It gets no replica until an operator runs `uncordon`. A program can fail on purpose, so
// its failures keep only the same program from the device, and only until the agent restarts.
// replicas/device_health.h cordons a device whose driver reported a fault, for every job; its
// running replica is released after the round.
//
// Availability. Share of its life that an agent is of use: it leaves once per expected life, and
// whatever replaces it takes kReplacement to serve. A new agent is taken for kPriorLife.
#pragma once

#include "base/time.h"
#include "coordinator/core/decisions/options.h"
#include "coordinator/core/records/records.h"

namespace shoal::coordinator {

bool is_violation(RejectReason reason);

// After one more violation; quarantined_until is set when it was one too many.
HealthRecord after_violation(HealthRecord health_record, RejectReason reason, Instant now,
                             const Options& options);

inline bool is_quarantined(const AgentRecord& agent) {
  return agent.health_record.quarantined_until != Instant();
}

inline constexpr std::size_t kProgramRefusalsMax = 64;  // of an agent and kind; the oldest goes

// What DeviceRefusal::code names: the uploaded code of a program or, for one in a folder of the
// host, its path. Empty: the job has no program.
std::string program_name(const TrainerSpec& trainer);

// What a device may be taken to have for the jobs of this trainer.
Bytes believed_memory(const AgentRecord& agent, const Device& device, const TrainerSpec& trainer);
// Whether this program ran out of memory on the device.
bool ran_out(const AgentRecord& agent, const Device& device, const TrainerSpec& trainer);
// Keeps the least that failed. For a program, `needed` is unknown and not kept.
void remember_refusal(AgentRecord& agent, const TrainerSpec& trainer, const DeviceRefusal& refusal);
// The same card, whatever its number is now: by UUID where both say one, else by index.
bool is_same_device(const Device& a, const Device& b);
// Some index is another card's now.
bool are_renumbered(const std::vector<Device>& before, const std::vector<Device>& now);
// Before the agent's devices are replaced by those of a hello. Refusals stay with their cards, also
// while a card is away.
void forget_past_refusals(AgentRecord& agent, const std::vector<Device>& devices, bool restarted);

// Whether the jobs of this trainer get nothing on the device, because their replicas failed there.
bool is_cordoned(const AgentRecord& agent, std::int32_t device, const TrainerSpec& trainer);
// `refusal` says which device, when and why.
void cordon_device(AgentRecord& agent, const TrainerSpec& trainer, DeviceRefusal refusal);
// What the coordinator has cordoned the device for; none: its driver reported no fault.
const DeviceRefusal* unhealthy_of(const AgentRecord& agent, std::int32_t device);

Duration expected_life(const Uptime& uptime, Instant now);
double availability(const Uptime& uptime, Instant now);
// The present stay has ended.
void end_stay(Uptime& uptime, Instant now);

}  // namespace shoal::coordinator
