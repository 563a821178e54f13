// One member of a replica group: it computes its shares of steps for the leader (group_leader.h)
// until the leader is gone. It has its own model and reads the data itself, and knows nothing of
// rounds, peers or agents.
#pragma once

#include "data/data_roots.h"
#include "data/stored_tokens.h"
#include "swarm/cuda/device_group.h"
#include "trainer/model/group_wire.h"
#include "trainer/model/torch_bridge.h"

namespace shoal::trainer {

inline constexpr char kGroupMemberCommand[] = "group-member";  // of shoal-trainer
inline constexpr int kGroupMemberSocket = 3;                   // the descriptor that it finds

// Returns kUnavailable when the leader is gone, otherwise what failed here. `group` adds gradients
// on the devices; null: the leader adds them.
Status run_group_member(GroupSocket& leader, const DeviceChoice& device,
                        const data::DataRoots& roots, swarm::DeviceGroup* group,
                        data::ReadStored read = {});

}  // namespace shoal::trainer
