// See worker.h.
#include "replica/runtime/worker.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"
#include "base/wire_text.h"

namespace shoal::replica {
namespace {

constexpr Duration kIdleWait = seconds(1);

}  // namespace

Worker::Worker(ReplicaContext context)
    : context_(std::move(context)), copies_(context_.node, context_.queue, context_.state_server) {}

WorkerEnd Worker::run() {
  bool changed = false;  // by an event: there may be work that idle() does not know of
  while (!end_) {
    const Duration idle = replica_ ? std::min(replica_->idle(), kIdleWait) : kIdleWait;
    if (auto event = context_.queue.pop(changed ? Duration{} : idle)) {
      handle(std::move(*event));
      changed = true;
      continue;
    }
    changed = false;
    if (!replica_) continue;
    MaybeFailure failure;
    const MaybeFailure thrown = context_.compute.guarded([&] { failure = replica_->work(); });
    settle(thrown ? thrown : failure);
  }
  drop_replica();
  return *end_;
}

void Worker::handle(Event event) {
  MaybeFailure failure;
  const MaybeFailure thrown = context_.compute.guarded([&] {
    std::visit(Overloaded{[&](const ToTrainer& command) { obey(command); },
                          [&](const ReduceEnded& e) {
                            if (replica_) failure = replica_->reduce_ended(e);
                          },
                          [&](const JoinMoved& e) {
                            if (replica_) replica_->join_moved(e);
                          },
                          [&](const JoinEnded& e) {
                            if (replica_) failure = replica_->join_ended(e);
                          },
                          [&](const MomentumGathered& e) {
                            if (replica_) replica_->momentum_gathered(e);
                          },
                          [&](const CheckpointWritten& e) {
                            if (replica_) replica_->checkpoint_written(e);
                          },
                          [&](const CopiesKept& e) {
                            if (!holds(e.keeper)) return;
                            context_.say(FromReplica<CopiesHeld>{e.keeper, e.held});
                          },
                          [&](const MomentsWanted&) {
                            if (replica_) replica_->moments_wanted();
                          },
                          [&](const Woken&) {},
                          [&](const StreamEnded&) { end_ = WorkerEnd::kStreamEnded; }},
               event);
  });
  settle(thrown ? thrown : failure);
}

void Worker::obey(const ToTrainer& command) {
  std::visit(Overloaded{[&](const LoadReplica& c) { load(c); },
                        [&](const Release& c) {
                          if (holds(c.replica)) drop_replica();
                          context_.say(context_.ready);
                        },
                        [&](const ToReplica<Evaluate>& c) {
                          if (holds(c.replica)) settle(replica_->evaluate(c.body));
                        },
                        [&](const WriteCheckpointTo& c) { write_checkpoint_to(c); },
                        [&](const ToReplica<PipelineView>& c) {
                          if (holds(c.replica)) settle(replica_->view(c.body));
                        },
                        [&](const ToReplica<KeepCopies>& c) {
                          if (!holds(c.replica)) return;
                          copies_.keep(c.replica, replica_->spec(), c.body);
                        },
                        [&](const MeasureBlock& c) { measure_block(c); },
                        [](const ToReplica<KeepRecord>&) {},  // for HeldWork
                        [](const Relays&) {},                 // the node has heard it (serve.cc)
                        [&](const StopTrainer&) { end_ = WorkerEnd::kStopped; },
                        [&](const auto& c) {  // the round commands
                          if (holds(c.replica)) settle(replica_->obey(c.body));
                        }},
             command);
}

void Worker::load(const LoadReplica& command) {
  if (holds(command.assign.replica)) return replica_->assigned_again(command.assign);
  drop_replica();
  replica_ = std::make_unique<Replica>(command, context_);
  settle(replica_->load());
}

// A second of work between two commands. The agent asks only while there is no replica.
void Worker::measure_block(const MeasureBlock& command) {
  BlockMeasured answer{command.device, digest_of(command.shape), {}};
  if (replica_) {
    answer.error = "a replica is on it";
  } else if (const auto times = context_.compute.measure_block(command)) {
    answer.times = *times;
  } else {
    answer.error = valid_text(times.error().message, kBlockErrorBytesMax);
  }
  context_.say(answer);
}

void Worker::drop_replica() {
  copies_.drop();
  replica_.reset();
}

void Worker::write_checkpoint_to(const WriteCheckpointTo& command) {
  if (holds(command.replica)) return settle(replica_->write_checkpoint_to(command));
  context_.say(
      CheckpointFailed{command.replica, command.command.checkpoint, "the replica is not here"});
}

void Worker::settle(MaybeFailure failure) {
  if (!failure || !replica_) return;
  context_.say(ReplicaFailed{replica_->id(), failure->kind, failure->detail});
  drop_replica();
  if (failure->kind == ReplicaFailure::kDeviceLost) end_ = WorkerEnd::kDeviceLost;
}

}  // namespace shoal::replica
