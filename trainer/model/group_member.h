// One member of a replica group: computes shares of steps for its leader (group_leader.h) until
// that is gone. It has a model and the data of its own, and knows nothing of rounds, peers or
// agents.
#pragma once

#include "data/data_roots.h"
#include "data/stored_tokens.h"
#include "swarm/cuda/device_group.h"
#include "trainer/model/group_wire.h"
#include "trainer/model/torch_bridge.h"

namespace shoal::trainer {

inline constexpr char kGroupMemberCommand[] = "group-member";  // of shoal-trainer
inline constexpr int kGroupMemberSocket = 3;                   // the descriptor that it finds

// Returns when the leader is gone (kUnavailable) or what failed here. `group`: what the device adds
// gradients with; null: the leader adds them.
Status run_group_member(GroupSocket& leader, const DeviceChoice& device,
                        const data::DataRoots& roots, swarm::DeviceGroup* group,
                        data::ReadStored read = {});

}  // namespace shoal::trainer
