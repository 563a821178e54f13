// What an agent's past says about it, and what follows: pure rules over its record.
//
// Quarantine. A contribution that is rejected while most of its stage is sound (not finite, or a
// norm far beyond the median), or that is longer than it was reported, is a violation against its
// agent; an average that two others made differently is as many as it takes.
// Options::quarantine_violations of them, none more than quarantine_window after the one before,
// keep the agent from work: it gets no replicas and those that it has are released as if it
// were drained. The first time for quarantine_first, then twice as long each time, at most
// quarantine_cap; an agent that was clean for quarantine_forgotten starts over. When most of a
// stage is rejected it is the job's fault and nobody's violation. An operator lifts it with
// `uncordon`.
//
// Memory. A device on which a replica ran out of memory is taken to have less than what that
// needed, whatever it says; `uncordon` forgets that, too.
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

// What a device may be taken to have.
Bytes believed_memory(const AgentRecord& agent, const Device& device);
// Keeps the least that failed.
void remember_refusal(AgentRecord& agent, std::int32_t device, Bytes needed, Instant now);

Duration expected_life(const Uptime& uptime, Instant now);
double availability(const Uptime& uptime, Instant now);
// The present stay has ended.
void end_stay(Uptime& uptime, Instant now);

}  // namespace shoal::coordinator
