// The compute thread of a trainer: it takes commands and events from one queue, holds at most one
// replica, and performs what its outer_opt::Participant decides: training, the reduce (in a thread
// of its own, so that commands are still obeyed), the outer step, reports. Between commands it
// evaluates and trains, one batch at a time; nothing that takes long blocks the queue but one inner
// step.
//
// Everything about one replica is in Replica (replica.h); this file routes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "outer_opt/transport/peer_node.h"
#include "swarm/core/messages.h"
#include "trainer/donor_shelf.h"
#include "trainer/event_queue.h"
#include "trainer/replica.h"
#include "trainer/torch_bridge.h"

namespace shoal::trainer {

enum class WorkerEnd { kStopped, kStreamEnded, kDeviceLost };

class Worker {
 public:
  // `queue`, `node` and `shelf` outlive the worker. `say` is called from the thread in run().
  Worker(const DeviceChoice& device, EventQueue& queue, outer_opt::PeerNode& node,
         DonorShelf& shelf, std::function<void(const FromTrainer&)> say);

  WorkerEnd run();  // until the agent stops it, the stream ends or the device is lost

 private:
  void handle(Event event);
  void obey(const ToTrainer& command);
  void load(const LoadReplica& command);
  void drop_replica();
  void write_checkpoint_to(const WriteCheckpointTo& command);
  void settle(MaybeFailure failure);  // reports it and drops the replica
  bool holds(ReplicaId replica) const { return replica_ && replica_->id() == replica; }

  DeviceChoice device_;
  EventQueue& queue_;
  outer_opt::PeerNode& node_;
  DonorShelf& shelf_;
  std::function<void(const FromTrainer&)> say_;
  std::unique_ptr<Replica> replica_;
  std::optional<WorkerEnd> end_;
};

}  // namespace shoal::trainer
