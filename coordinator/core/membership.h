// Agents: joining, returning, going silent, leaving. Liveness is the stream plus a lease; a closed
// stream has a short grace within it, and after a restart of the coordinator everybody gets a long
// one.
#pragma once

#include "coordinator/core/turn.h"

namespace shoal::coordinator {

void on_booted(Turn& turn);
void on_hello(Turn& turn, ConnectionId connection, const Hello& hello);
void on_hung_up(Turn& turn, ConnectionId connection);
void on_goodbye(Turn& turn, AgentId agent, const Goodbye& goodbye);
void on_device_measured(Turn& turn, AgentId agent, const DeviceMeasured& measured);

// Looks at every lease; cheap enough for once a second, too dear for every message.
void scan_leases(Turn& turn);

// One of its contributions was rejected; it may be one too many (standing.h).
void strike(Turn& turn, AgentId agent, RejectReason reason);
// Out of memory with a replica, what was needed with those beside it.
void on_out_of_memory(Turn& turn, const ReplicaRecord& replica);
// Nothing is held against it any more; nothing happens when nothing was.
void forgive(Turn& turn, AgentId agent);

// idle, syncing or active, from the replicas the agent holds.
void refresh_agent(Turn& turn, AgentId agent);

}  // namespace shoal::coordinator
