// See worker.h.
#include "trainer/worker.h"

#include <optional>
#include <utility>

#include "base/overloaded.h"

namespace shoal::trainer {
namespace {

constexpr Duration kIdleWait = seconds(1);

}  // namespace

Worker::Worker(const DeviceChoice& device, EventQueue& queue, outer_opt::PeerNode& node,
               DonorShelf& shelf, std::function<void(const FromTrainer&)> say)
    : device_(device), queue_(queue), node_(node), shelf_(shelf), say_(std::move(say)) {}

WorkerEnd Worker::run() {
  while (!end_) {
    const bool busy = replica_ && replica_->has_work();
    if (auto event = queue_.pop(busy ? Duration{} : kIdleWait)) {
      handle(std::move(*event));
    } else if (busy) {
      MaybeFailure failure;
      const MaybeFailure thrown = guarded([&] { failure = replica_->work(); });
      settle(thrown ? thrown : failure);
    }
  }
  drop_replica();
  return *end_;
}

void Worker::handle(Event event) {
  MaybeFailure failure;
  const MaybeFailure thrown = guarded([&] {
    std::visit(Overloaded{[&](const ToTrainer& command) { obey(command); },
                          [&](const ReduceEnded& e) {
                            if (replica_) failure = replica_->reduce_ended(e);
                          },
                          [&](const FetchEnded& e) {
                            if (replica_) failure = replica_->fetch_ended(e);
                          },
                          [&](const AdamWanted&) {
                            if (replica_) replica_->adam_wanted();
                          },
                          [&](const StreamEnded&) { end_ = WorkerEnd::kStreamEnded; }},
               event);
  });
  settle(thrown ? thrown : failure);
}

void Worker::obey(const ToTrainer& command) {
  std::visit(Overloaded{[&](const LoadReplica& c) { load(c); },
                        [&](const Release& c) {
                          if (holds(c.replica)) drop_replica();
                        },
                        [&](const ToReplica<Evaluate>& c) {
                          if (holds(c.replica)) replica_->evaluate(c.body);
                        },
                        [&](const WriteCheckpointTo& c) { write_checkpoint_to(c); },
                        [&](const ToReplica<PipelineView>&) {},
                        [&](const StopTrainer&) { end_ = WorkerEnd::kStopped; },
                        [&](const auto& c) {  // the round commands
                          if (holds(c.replica)) settle(replica_->obey(c.body));
                        }},
             command);
}

void Worker::load(const LoadReplica& command) {
  if (holds(command.assign.replica)) return replica_->say_loaded();
  drop_replica();
  replica_ =
      std::make_unique<Replica>(command, ReplicaContext{device_, queue_, node_, shelf_, say_});
  settle(replica_->load());
}

void Worker::drop_replica() { replica_.reset(); }

void Worker::write_checkpoint_to(const WriteCheckpointTo& command) {
  const CheckpointId checkpoint = command.command.checkpoint;
  const Status written = holds(command.replica)
                             ? replica_->write_checkpoint_to(command.folder, command.command.key)
                             : Status(Error{Code::kNotFound, "the replica is not here", "", ""});
  if (written) {
    say_(CheckpointReady{command.replica, checkpoint, command.command.key});
  } else {
    say_(CheckpointFailed{command.replica, checkpoint, to_string(written.error())});
  }
}

void Worker::settle(MaybeFailure failure) {
  if (!failure || !replica_) return;
  say_(ReplicaFailed{replica_->id(), failure->kind, failure->detail});
  drop_replica();
  if (failure->kind == ReplicaFailure::kDeviceLost) end_ = WorkerEnd::kDeviceLost;
}

}  // namespace shoal::trainer
