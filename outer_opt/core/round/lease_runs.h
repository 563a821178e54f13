// Training sequences as lists of runs. The runs of a list do not overlap; their order is the order
// in which they are trained, and runs that follow each other without a gap are one.
#pragma once

#include <cstdint>
#include <vector>

#include "outer_opt/core/round/round.h"

namespace shoal::outer_opt {

using LeaseRuns = std::vector<DataLease>;

// At the end; an empty one is ignored.
void append(LeaseRuns& runs, const DataLease& run);

// The first `count` sequences, all when there are fewer; `runs` keeps the others.
LeaseRuns take_first(LeaseRuns& runs, std::int64_t count);

// The sequences of `runs` that are not in `taken`, which need not be in `runs`.
LeaseRuns without(const LeaseRuns& runs, LeaseRuns taken);

// Whether runs came as they should: none before 0 or beyond what can be counted, each in whole
// units, none twice, and kLeaseRunsMax at most.
bool well_formed(const LeaseRuns& runs, std::int64_t unit);

}  // namespace shoal::outer_opt
