// Sharded outer momentum (outer_opt/core/step/momentum_shards.h) at a replica: what a plan needs is
// staged before its reduce, and a checkpoint gathers all ranges. What the plan was staged with
// becomes the replica's own only when the round commits, so an attempt that fails leaves no trace.
#include "base/check.h"
#include "outer_opt/transport/momentum_gather.h"
#include "trainer/replica/replica.h"

namespace shoal::trainer {

// In the background: outer_ stands still while a reduce runs.
std::optional<outer_opt::ReduceError> Replica::stage_momentum(const ReducePlan& plan,
                                                              std::stop_token stop) {
  staged_.reset();
  const auto ranges = outer_opt::kept_ranges(plan.members, id_);
  const std::vector<MomentumHolder>& holders = plan.owner_step->holders;
  if (outer_opt::stays(ranges, id_, holders, outer_->shards)) return std::nullopt;
  auto restaged = outer_opt::restage(ranges, id_, holders, outer_->shards);
  if (!restaged) {
    return outer_opt::ReduceError{ReduceFailure::kPlanMismatch, {}, to_string(restaged.error())};
  }
  const RoundKey held{plan.key.job, plan.key.lineage, plan.key.round - 1};
  const outer_opt::Gathered gathered =
      outer_opt::gather_momentum(context_.node, held, *restaged, stop);
  if (!gathered.status) {
    return outer_opt::ReduceError{ReduceFailure::kPeerLost, gathered.lost,
                                  to_string(gathered.status.error())};
  }
  staged_ = std::move(restaged->shards);
  return std::nullopt;
}

std::span<const float> Replica::own_momentum(const ReducePlan& plan) const {
  const outer_opt::MomentumShards& shards = staged_ ? *staged_ : outer_->shards;
  for (const ReduceMember& member : plan.members) {
    if (member.replica == id_ && member.part_count > 0) {
      return shards.at(outer_opt::ValueRange{member.part_first, member.part_count});
    }
  }
  return {};
}

// A command for another checkpoint, or the same one said again, replaces what is under way.
void Replica::start_gathering(const WriteCheckpointTo& command) {
  gatherer_.stop();
  gathering_.reset();
  const WriteCheckpoint& wanted = command.command;
  auto restaged = outer_opt::restage(whole_, id_, wanted.momentum, outer_->shards);
  if (!restaged) return say_written(command, restaged.error());
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
  if (!done->status) return say_written(done->command, done->status);
  const auto momentum = std::as_const(done->momentum.shards).at(whole_.front());
  say_written(done->command,
              write_files(done->command.folder, done->command.command.key, momentum));
}

}  // namespace shoal::trainer
