// Sharded outer momentum at a simulated trainer: ranges are fetched from their holders before a
// reduce that moves them and for a checkpoint, as replica/runtime/replica_momentum.cc does. Also
// how checkpoints are written.
#include "tests/sim/checkpoint_entries.h"
#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

using namespace outer_opt;

namespace {
constexpr Duration kAskAgain = milliseconds(50);  // a holder that is about to take its outer step
constexpr int kTriesMax = 20;
}  // namespace

// Asks every holder of a missing range. Calls `done` once, with the holder that failed or with
// none. A caller that sets `ended` gets no call any more.
std::shared_ptr<Trainer::Gathering> Trainer::gather_ranges(
    const RoundKey& key, Restaged staged, std::function<void(Gathering&, ReplicaId lost)> done) {
  auto gathering = std::make_shared<Gathering>();
  gathering->replica = replica_->id;
  gathering->key = key;
  gathering->staged = std::move(staged);
  gathering->left = gathering->staged.missing.size();
  gathering->done = std::move(done);
  for (const MomentumHolder& holder : gathering->staged.missing) {
    const auto failed = [this, gathering, holder] { end_gathering(gathering, holder.replica); };
    peers_.watch(*this, holder.address);
    peers_.call(
        *this, holder.address,
        [this, gathering, holder](PeerEnd& end) {
          static_cast<Trainer&>(end).give_momentum(holder, *this, gathering, kTriesMax);
        },
        failed);
    process_.after(sim_.options.keepalive * 2, failed);
  }
  if (gathering->left == 0) {
    process_.after(Duration{}, [this, gathering] { end_gathering(gathering, {}); });
  }
  return gathering;
}

void Trainer::give_momentum(const MomentumHolder& holder, PeerEnd& to,
                            const std::shared_ptr<Gathering>& gathering, int tries) {
  const bool ours = replica_ && replica_->id == holder.replica && replica_->loop;
  if (ours && replica_->loop->held() < gathering->key && tries > 0) {
    process_.after(kAskAgain, [this, holder, to = &to, gathering, tries] {
      give_momentum(holder, *to, gathering, tries - 1);
    });
    return;
  }
  std::optional<std::vector<float>> values;
  const ValueRange range{holder.first, holder.count};
  if (ours && replica_->loop->held() == gathering->key &&
      replica_->loop->state().shards.holds(range)) {
    const auto kept = std::as_const(replica_->loop->state().shards).at(range);
    values.emplace(kept.begin(), kept.end());
  }
  peers_.hang_up(*this, to.address(), [holder, gathering, values](PeerEnd& end) {
    static_cast<Trainer&>(end).got_momentum(holder, gathering, values);
  });
}

void Trainer::got_momentum(const MomentumHolder& holder,
                           const std::shared_ptr<Gathering>& gathering,
                           const std::optional<std::vector<float>>& values) {
  if (gathering->ended) return;
  if (!values) return end_gathering(gathering, holder.replica);
  if (sim_.bug != Bug::kForgottenMomentum || !sim_.misbehave(sim_.bug)) {
    const auto to = gathering->staged.shards.at({holder.first, holder.count});
    std::copy(values->begin(), values->end(), to.begin());
  }
  if (--gathering->left == 0) end_gathering(gathering, {});
}

void Trainer::end_gathering(const std::shared_ptr<Gathering>& gathering, ReplicaId lost) {
  if (gathering->ended) return;
  gathering->ended = true;
  if (!replica_ || replica_->id != gathering->replica) return;
  const bool fetched = !gathering->staged.missing.empty();
  if (fetched) ++sim_.transitions[lost ? "momentum fetch failed" : "momentum fetch done"];
  gathering->done(*gathering, lost);
}

void Trainer::momentum_lost(const std::string& address) {
  for (const auto& gathering : {replica_->staging, replica_->gathering}) {
    if (!gathering || gathering->ended) continue;
    for (const MomentumHolder& holder : gathering->staged.missing) {
      if (holder.address == address) return end_gathering(gathering, holder.replica);
    }
  }
}

// ---- before a reduce

void Trainer::stage_momentum(const ReducePlan& plan, bool contributes) {
  Replica& r = *replica_;
  auto missing = r.loop->missing_momentum(plan);
  if (!missing) {
    sim_.observe(&Checker::plan_refused, r.id, plan.key, to_string(missing.error()));
    return tell_failed(
        {plan.key, plan.attempt, {}, ReduceFailure::kPlanMismatch, to_string(missing.error())});
  }
  if (!*missing) return open_session(plan, contributes);
  const auto done = [this, plan, contributes](Gathering& g, ReplicaId lost) {
    if (lost) {
      return tell_failed({plan.key, plan.attempt, lost, ReduceFailure::kPeerLost,
                          "its momentum could not be fetched"});
    }
    replica_->loop->stage(std::move(g.staged.shards));
    open_session(plan, contributes);
  };
  r.staging = gather_ranges(r.loop->held(), std::move(**missing), done);
}

// ---- checkpoints

void Trainer::write_checkpoint(const WriteCheckpointTo& command) {
  if (replica_->loop->held() != command.command.key) {
    return say(CheckpointFailed{command.replica, command.command.checkpoint,
                                "this round is not held any more"});
  }
  if (!replica_->loop->memory_is_intact()) {
    return fail(ReplicaFailure::kDigestMismatch, "its memory has changed");
  }
  const replica::OuterState& state = replica_->loop->state();
  replica_->loop->gathers_momentum() ? gather_checkpoint(command)
                                     : put_checkpoint(command, state.vectors);
}

void Trainer::gather_checkpoint(const WriteCheckpointTo& command) {
  Replica& r = *replica_;
  if (r.gathering) r.gathering->ended = true;
  const ValueRange all = values_of(0).front();
  auto staged = r.loop->all_momentum(command.command.momentum);
  if (!staged) {
    sim_.observe(&Checker::plan_refused, r.id, command.command.key, to_string(staged.error()));
    return say(
        CheckpointFailed{command.replica, command.command.checkpoint, to_string(staged.error())});
  }
  const auto done = [this, command, all](Gathering& g, ReplicaId lost) {
    if (lost || replica_->loop->held() != command.command.key) {
      return say(CheckpointFailed{command.replica, command.command.checkpoint,
                                  "the momentum of its round could not be gathered"});
    }
    sim_.observe(&Checker::momentum_kept,
                 MomentumKept{command.replica, replica_->assign.stage, g.key, g.staged.shards,
                              &command.command.momentum});
    const auto values = std::as_const(g.staged.shards).at(all);
    put_checkpoint(command, {{kMomentum[0], {values.begin(), values.end()}}});
  };
  r.gathering = gather_ranges(command.command.key, std::move(*staged), done);
}

void Trainer::put_checkpoint(const WriteCheckpointTo& command, NamedVectors vectors) {
  CheckpointFiles files{command.command.key, replica_->assign.stage, replica_->loop->state()};
  files.state.vectors = std::move(vectors);
  files.state.shards = {};
  files.first = first_value();
  process_.after(milliseconds(30), [this, command, files = std::move(files)]() mutable {
    CheckpointReady ready{command.replica, command.command.checkpoint, command.command.key};
    ready.files = entries_of(files);
    ready.anchor = replica::digests_of(files.state).anchor;
    owner_.put_folder(command.folder, std::move(files));
    say(ready);
  });
}

}  // namespace shoal::sim
