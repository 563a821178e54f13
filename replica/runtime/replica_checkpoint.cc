// What a replica keeps for a checkpoint, and how it writes one. The moments of the inner optimizer
// are those of the cut: where checkpoint.every_rounds says that one is due they are copied when the
// replica comes to the committed state, which costs every replica 8 bytes of host memory per
// parameter until the next commit (twice that with sync.overlap_steps, from a boundary to its
// commit) and one copy from the device. The last checkpoint and that of a pause are written when
// nothing has been trained since the cut. The one exception is a job that is paused while it is
// stalled in the midst of a round: its moments are those of the steps that are given up.
#include "replica/runtime/replica.h"

namespace shoal::replica {

bool Replica::checkpoint_due(RoundNumber round) const {
  const std::int64_t every = spec_.checkpoint.every_rounds;
  return every > 0 && round > 0 && round % every == 0;
}

Replica::CutMoments Replica::read_moments(const RoundKey& key) const {
  CutMoments cut{key, compute_->adam_step(), {}, {}};
  cut.m.resize(static_cast<std::size_t>(compute_->first_moment_count()));
  cut.v.resize(static_cast<std::size_t>(compute_->second_moment_count()));
  compute_->read_adam(cut.m, cut.v);
  return cut;
}

Replica::CutMoments Replica::moments_at(const RoundKey& key) const {
  const bool wanted = checkpoint_due(key.round) && !loop_->state().shares_adam();
  return wanted ? read_moments(key) : CutMoments{key, 0, {}, {}};
}

// Behind its boundary it has trained on since, unless it has no part in the result.
void Replica::come_to_cut(const RoundKey& key) {
  const bool noted = next_cut_ && next_cut_->key == key && loop_->contributed();
  cut_moments_ = noted ? std::move(*next_cut_) : moments_at(key);
  next_cut_.reset();
}

// A checkpoint that reloads to other digests than its record names is found out when it is needed.
MaybeFailure Replica::check_memory() const {
  if (loop_->memory_is_intact()) return std::nullopt;
  return Failure{ReplicaFailure::kDigestMismatch,
                 "its memory holds another anchor or outer momentum than after the outer step; "
                 "check the memory of this host"};
}

MaybeFailure Replica::write_checkpoint_to(const WriteCheckpointTo& command) {
  if (auto failure = enter()) return failure;
  if (auto failure = check_memory()) return failure;
  if (loop_->gathers_momentum()) {
    start_gathering(command);
  } else {
    const OuterState& state = loop_->state();
    say_written(command, write_files(command.folder, command.command.key, state.momentum));
  }
  return std::nullopt;
}

void Replica::say_written(const WriteCheckpointTo& command, const Status& written) {
  const WriteCheckpoint& wanted = command.command;
  if (!written) {
    return context_.say(CheckpointFailed{id_, wanted.checkpoint, to_string(written.error())});
  }
  const CheckpointReady ready{id_, wanted.checkpoint, wanted.key, sample_};
  if (!sampling_) return context_.say(ready);
  unsaid_.push_back(ready);
}

// The coordinator asks for a checkpoint when the next round is open; by then it may be too late to
// sample at rest. So the rule of when there is one, and who writes it, is used here, too.
void Replica::sample(const CommitRound& commit) {
  sample_.clear();
  const bool due = commit.last || checkpoint_due(commit.key.round);
  sampling_ = due && stage_ == 0 && first_member_;
  if (sampling_) training_->sample(commit.key.round);
}

void Replica::sampled(std::string text) {
  sampling_ = false;
  sample_ = std::move(text);
  for (CheckpointReady& ready : std::exchange(unsaid_, {})) {
    ready.sample = sample_;
    context_.say(ready);
  }
}

Status Replica::write_files(const std::filesystem::path& folder, const RoundKey& key,
                            std::span<const float> momentum) {
  if (!participant_ || participant_->held() != key) {
    return Error{Code::kConflict, "the replica does not hold round " + std::to_string(key.round),
                 "", ""};
  }
  const OuterState& state = loop_->state();
  if (state.shares_adam()) {
    return context_.compute.write_checkpoint(
        folder, {spec_, cut_, stage_, key, held_step_, state.anchor, momentum, state.adam_m,
                 state.adam_v, key.round});
  }
  if (cut_moments_.m.empty()) cut_moments_ = read_moments(key);
  const CutMoments& cut = cut_moments_;
  return context_.compute.write_checkpoint(
      folder,
      {spec_, cut_, stage_, key, held_step_, state.anchor, momentum, cut.m, cut.v, cut.step});
}

}  // namespace shoal::replica
