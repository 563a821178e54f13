// What a job has measured before it is cut for the first time: free devices time a block of its
// model, and the coordinator times the lines of their hosts (line_probes.h). The job waits for the
// answers, for Options::measure_limit at most, while it waits for late devices anyway; a device
// that is late, fails or cannot be asked is planned by its matrix product, a line by kAssumedLine.
// What was measured stays with the agent (state/blocks.h, HostLine), so the next job asks nobody.
// Jobs of one stage are not cut: they begin at once, and their forecast uses what is there.
#pragma once

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Asks whom it has not asked. True: answers may still come; the reason of the job says so.
bool waits_for_measurements(Transaction& tx, JobId job, const PlacementInput& input);

// An answer that nobody waits for is ignored.
void on_block_measured(Transaction& tx, AgentId agent, const BlockMeasured& measured);

void on_host_line_measured(Transaction& tx, const HostLineMeasured& measured);

// Its stream has ended, and with it what it was asked. A job that still waits asks it again.
void end_measuring(Transaction& tx, AgentId agent);

}  // namespace shoal::coordinator
