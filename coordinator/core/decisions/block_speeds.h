// Speeds of devices by what they measured for a block of the job's model at its precision. A matrix
// product promises more than small matrices, an embedding and a loss reach, and how much more
// differs between devices and precisions. The planner knows a device by one speed and a unit of the
// model by one amount of work; measured times become both: a block takes each device as long as it
// measured, embedding and head take as many blocks as they did in the mean.
#pragma once

#include "coordinator/core/decisions/placement.h"

namespace shoal::coordinator {

// Sets `gflops` of the devices and replicas that have a `block`, and `ends`. One without keeps its
// matrix product times the share of theirs that the others reach. Without any block nothing
// changes. Once per input.
void go_by_blocks(PlacementInput& input);

// Whether it is worth asking the device: the parts fit its memory, and one sequence takes it
// 2 s at most by `gflops`, of which it reaches a part.
bool can_measure_block(const JobSpec& spec, const FreeDevice& device);

}  // namespace shoal::coordinator
