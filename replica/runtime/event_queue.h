// What reaches the compute thread of a trainer beside the commands of its agent; the queue itself
// is agent_channel/event_queue.h.
#pragma once

#include <cstdint>
#include <variant>

#include "agent_channel/event_queue.h"
#include "base/result.h"
#include "messages/trainer_messages.h"
#include "outer_opt/transport/peer_node.h"

namespace shoal::replica {

// Work in the background ended; `work` is the number it was started with, older ones are ignored.
struct ReduceEnded {
  std::uint64_t work = 0;
  std::int32_t attempt = 0;
  outer_opt::ReduceResult result;
};
struct JoinMoved {  // about once a second
  std::uint64_t work = 0;
  Bytes done, total, received, per_round;  // see LoadProgress
};
struct JoinEnded {  // ok: the session is level
  std::uint64_t work = 0;
  Status status;
};
struct MomentumGathered {  // for a checkpoint
  std::uint64_t work = 0;
};
struct CheckpointWritten {
  std::uint64_t work = 0;
};
struct CopiesKept {  // what the copies of other stages hold now
  ReplicaId keeper;
  CopiesHeld held;
};
struct MomentsWanted {};  // a joiner takes our state and waits for Adam's moments
struct Woken {};          // something arrived from a neighbor in the pipeline
using agent_channel::StreamEnded;

using Event = std::variant<ToTrainer, ReduceEnded, JoinMoved, JoinEnded, MomentumGathered,
                           CheckpointWritten, CopiesKept, MomentsWanted, Woken, StreamEnded>;
using EventQueue = agent_channel::EventQueue<Event>;

}  // namespace shoal::replica
