// Finds the agents whose silence holds a round up. A silent agent usually keeps its lease, because
// its line may be slow and the others have work meanwhile. When only silent agents keep a round
// from continuing, all others are idle. Then the round waits for a silent agent no longer than for
// an agent whose stream has closed; otherwise a second fault during that wait would double it. The
// replicas of an agent that was waited for long enough become absent, as when a lease lapses.
//
// Often the round waits less. Waiting for w costs each of the others w; continuing costs t, which
// the silent replica trained in the round. With n others, a wait of more than t / n loses more than
// it can save: 1 s for 32 replicas in rounds of 30 s, 200 s for four in rounds of 10 minutes. The
// wait is never below one and a half heartbeats (3 s with heartbeats of 2 s), because an agent on a
// healthy line may be that late, and never above the wait for a closed stream. Silence counts from
// the last heartbeat. So a replica that fell silent well before the end of the round is not waited
// for at all, and two that fall silent at once cost no more than one.
//
// When the round continues, the state of the silent replicas becomes worthless. If a stage would
// then depend on a single replica, they keep the whole lease, but only once in a round: after the
// round has stood still for that long, the next silent replica gets the usual wait.
//
// At least one of the agents that wait must have been heard meanwhile. If none was, a line that all
// of them share is down, and the round could not continue without the silent agents either.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

struct HoldUps {
  std::vector<AgentId> over;         // waited for long enough
  std::optional<Instant> wakeup_at;  // when the next agent will have been waited for long enough
};

HoldUps find_hold_ups(const Transaction& tx);

}  // namespace shoal::coordinator
