// One member of a cell: computes shares of steps for its leader (cell_leader.h) until that is gone.
// It has a model and the data of its own, and knows nothing of rounds, peers or agents.
#pragma once

#include "swarm/cuda/device_group.h"
#include "trainer/model/cell_wire.h"
#include "trainer/model/torch_bridge.h"

namespace shoal::trainer {

inline constexpr char kCellMemberCommand[] = "cell-member";  // of shoal-trainer
inline constexpr int kCellMemberSocket = 3;                  // the descriptor that it finds

// Returns when the leader is gone (kUnavailable) or what failed here. `group`: what the device adds
// gradients with; null: the leader adds them.
Status run_cell_member(CellSocket& leader, const DeviceChoice& device, swarm::DeviceGroup* group);

}  // namespace shoal::trainer
