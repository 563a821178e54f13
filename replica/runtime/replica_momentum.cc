// Sharded outer momentum (outer_opt/core/step/momentum_shards.h) at a replica: what a plan needs is
// fetched before its reduce, and a checkpoint gathers all ranges.
#include "outer_opt/transport/momentum_gather.h"
#include "replica/runtime/replica.h"

namespace shoal::replica {

// In the background: the state stands still while a reduce runs.
std::optional<outer_opt::ReduceError> Replica::fetch_momentum(const ReducePlan& plan,
                                                              std::stop_token stop) {
  auto missing = loop_->missing_momentum(plan);
  if (!missing) {
    return outer_opt::ReduceError{ReduceFailure::kPlanMismatch, {}, to_string(missing.error())};
  }
  if (!*missing) return std::nullopt;
  outer_opt::Restaged& restaged = **missing;
  const RoundKey held{plan.key.job, plan.key.epoch, plan.key.round - 1};
  const outer_opt::Gathered gathered =
      outer_opt::gather_momentum(context_.node, held, restaged, stop);
  if (!gathered.status) {
    return outer_opt::ReduceError{ReduceFailure::kPeerLost, gathered.lost,
                                  to_string(gathered.status.error())};
  }
  loop_->stage(std::move(restaged.shards));
  return std::nullopt;
}

// A command for another checkpoint, or a repeated command, replaces the running one.
void Replica::start_gathering(const WriteCheckpointTo& command) {
  gatherer_.stop();
  gathering_.reset();
  auto restaged = loop_->all_momentum(command.command.momentum);
  if (!restaged) return say_failed(command, restaged.error());
  gathering_ = std::make_unique<Gathering>(Gathering{command, std::move(*restaged), {}});
  gatherer_.start([this, work = gathering_.get()](std::uint64_t number, std::stop_token stop) {
    const RoundKey& key = work->command.command.key;
    work->status = outer_opt::gather_momentum(context_.node, key, work->momentum, stop).status;
    context_.queue.push(MomentumGathered{number});
  });
}

void Replica::momentum_gathered(const MomentumGathered& event) {
  if (event.work == gatherer_.current()) end_gathering();
}

void Replica::end_gathering() {
  if (!gathering_) return;
  gatherer_.wait();
  const std::unique_ptr<Gathering> done = std::move(gathering_);
  if (!done->status) return say_failed(done->command, done->status.error());
  start_writing(done->command,
                std::make_unique<const outer_opt::Restaged>(std::move(done->momentum)));
}

}  // namespace shoal::replica
