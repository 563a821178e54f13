// Agents: joining, returning, going silent, leaving. Liveness is the stream plus a lease; a closed
// stream has a short grace within it, and after a restart of the coordinator everybody gets a long
// one. A lease that lapses excludes from rounds and kills nobody: the replicas of the agent are
// absent, and continue with what they hold when it is back.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

void on_booted(Transaction& tx, const Booted& booted);
void on_hello(Transaction& tx, const AgentHello& said);
void on_hung_up(Transaction& tx, ConnectionId connection);
void on_goodbye(Transaction& tx, AgentId agent, const Goodbye& goodbye);
void on_device_measured(Transaction& tx, AgentId agent, const DeviceMeasured& measured);

// Looks at every lease; cheap enough for once a second, too dear for every message.
void scan_leases(Transaction& tx);

}  // namespace shoal::coordinator
