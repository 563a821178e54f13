// The compute thread of a trainer: it takes commands and events from one queue, holds at most one
// replica, and performs what its outer_opt::Participant decides: training, the reduce (in a thread
// of its own, so that commands are still obeyed), the outer step, reports. Between commands it
// evaluates and trains, one piece at a time; nothing that takes long blocks the queue but one inner
// step, or one pass of a pipeline.
//
// Everything about one replica is in Replica (replica.h); this file routes.
#pragma once

#include <memory>
#include <optional>

#include "messages/trainer_messages.h"
#include "replica/runtime/copy_keeper.h"
#include "replica/runtime/event_queue.h"
#include "replica/runtime/replica.h"

namespace shoal::replica {

enum class WorkerEnd { kStopped, kStreamEnded, kDeviceLost };

class Worker {
 public:
  // What `context` refers to outlives the worker. `say` is called from the thread in run().
  explicit Worker(ReplicaContext context);

  WorkerEnd run();  // until the agent stops it or stays away, or the device is lost

 private:
  void handle(Event event);
  void obey(const ToTrainer& command);
  void load(const LoadReplica& command);
  void measure_block(const MeasureBlock& command);
  void drop_replica();
  void write_checkpoint_to(const WriteCheckpointTo& command);
  void settle(MaybeFailure failure);  // reports it and drops the replica
  bool holds(ReplicaId replica) const { return replica_ && replica_->id() == replica; }

  ReplicaContext context_;
  CopyKeeper copies_;  // of other stages, as long as there is a replica
  std::unique_ptr<Replica> replica_;
  std::optional<WorkerEnd> end_;
};

}  // namespace shoal::replica
