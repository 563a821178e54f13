// Agents whose silence holds a round up. A silent agent is given its lease, since a line may be
// slow and there is work for the others meanwhile. Where only silent agents keep a round from
// continuing, all others are idle: then it waits no longer for them than for one whose stream has
// closed. Without that a second fault, while the first one is waited for, would cost the same round
// as long again. The replicas are absent as with any lease that lapses.
//
// Often it waits less. A silence of w costs each of the others w; continuing costs what the silent
// one trained in the round, t. With n others, waiting for more than t / n loses more than it can
// save. 32 replicas in rounds of 30 s wait a second for one, four in rounds of 10 minutes as long
// as they may. But never less than a heartbeat and a half (3 s of 2 s): an agent on a sound line
// may be that late. Silence counts from the last heartbeat, so a replica that fell silent well
// before the round's end is not waited for at all, and two that are silent at once cost no more
// than one.
//
// A round that continues makes what they hold worthless. Where that would leave a stage to one
// replica alone, whose loss would be the stage's, they have the whole lease; but once for a round:
// when it has stood still for that long, the next silent one has no more than the others.
//
// At least one waiting agent must have been heard meanwhile. If none was, a line that all of them
// share is down, and no round would continue without the silent ones either.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

struct HoldUps {
  std::vector<AgentId> over;         // waited for long enough
  std::optional<Instant> wakeup_at;  // when the next one is
};

HoldUps find_hold_ups(const Transaction& tx);

}  // namespace shoal::coordinator
