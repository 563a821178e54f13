// Asks free devices to measure a block of a job's model before it is cut for the first time. The
// job waits for the answers, for Options::measure_limit at most, while it waits for late devices
// anyway; a device that is late, fails or cannot be asked is planned by its matrix product. What
// was measured stays with the agent (state/blocks.h), so the next job of the shape asks nobody.
// Jobs of one stage are not cut: they begin at once, and their forecast uses what is there.
#pragma once

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Asks whom it has not asked. True: answers may still come; the reason of the job says so.
bool waits_for_blocks(Transaction& tx, JobId job, const PlacementInput& input);

// An answer that nobody waits for is ignored.
void on_block_measured(Transaction& tx, AgentId agent, const BlockMeasured& measured);

// Its stream has ended, and with it what it was asked. A job that still waits asks it again.
void end_measuring(Transaction& tx, AgentId agent);

}  // namespace shoal::coordinator
