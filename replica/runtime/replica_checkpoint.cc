// What a replica keeps for a checkpoint, and how it writes one. The moments of the inner optimizer
// are those of the cut: where checkpoint.every_rounds says that one is due they are copied when the
// replica comes to the committed state, which costs every replica 8 bytes of host memory per
// parameter until the next commit (twice that with sync.overlap_steps, from a boundary to its
// commit) and one copy from the device. The last checkpoint and that of a pause are written when
// nothing has been trained since the cut. The one exception is a job that is paused while it is
// stalled in the midst of a round: its moments are those of the steps that are given up.
//
// Nothing is copied to be written: a checkpoint shares the outer state and the moments of its cut
// with the replica, and a commit that comes while it is being written makes itself a new outer
// state (OuterLoop::shared_state()).
#include <string>
#include <utility>
#include <vector>

#include "outer_opt/core/step/vector_statistics.h"
#include "replica/runtime/replica.h"

namespace shoal::replica {
namespace {

// A checkpoint with a value that is not finite could not be continued by any replica.
Status check_finite(const CheckpointContent& content) {
  std::vector<std::pair<std::string, std::span<const float>>> vectors{
      {"weights", content.anchor},
      {"first moments of the inner optimizer", content.adam_m},
      {"second moments of the inner optimizer", content.adam_v}};
  for (const NamedValues& vector : content.outer) {
    vectors.emplace_back("outer " + std::string(vector.name), vector.values);
  }
  for (const auto& [name, values] : vectors) {
    const std::int64_t bad = outer_opt::count_nonfinite(values);
    if (bad == 0) continue;
    return Error{Code::kDataLoss,
                 "the checkpoint is not written, because " + std::to_string(bad) +
                     " values of its " + name + " are not finite",
                 "", "lower train.lr, clip the gradients, or look for such values in the data"};
  }
  return {};
}

}  // namespace

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

// The replica has trained beyond its boundary since, unless it has no part in the result.
void Replica::come_to_cut(const RoundKey& key) {
  const bool noted = next_cut_ && next_cut_->key == key && loop_->contributed();
  cut_moments_.reset();  // before there are new ones
  cut_moments_ =
      std::make_shared<const CutMoments>(noted ? std::move(*next_cut_) : moments_at(key));
  next_cut_.reset();
}

// A checkpoint with other digests than its record names is only detected when it is loaded.
MaybeFailure Replica::check_memory() const {
  if (loop_->memory_is_intact()) return std::nullopt;
  return Failure{ReplicaFailure::kDigestMismatch,
                 "its memory holds another anchor or outer momentum than after the outer step; "
                 "check the memory of this host"};
}

MaybeFailure Replica::write_checkpoint_to(const WriteCheckpointTo& command) {
  if (auto failure = enter()) return failure;
  if (auto failure = check_memory()) return failure;
  if (writing_ && writing_->command == command) return std::nullopt;  // it was said twice
  end_writing();
  loop_->gathers_momentum() ? start_gathering(command) : start_writing(command, nullptr);
  return std::nullopt;
}

void Replica::say_failed(const WriteCheckpointTo& command, const Error& error) const {
  context_.say(CheckpointFailed{id_, command.command.checkpoint, to_string(error)});
}

void Replica::say_written(Writing written) {
  if (!written.part) return say_failed(written.command, written.part.error());
  const WriteCheckpoint& wanted = written.command.command;
  CheckpointReady ready{id_,
                        wanted.checkpoint,
                        wanted.key,
                        std::move(written.sample),
                        std::move(written.part->files),
                        written.part->anchor};
  if (!written.awaits_sample) return context_.say(ready);
  unsaid_.push_back(std::move(ready));
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
  if (writing_ && writing_->awaits_sample) {
    writing_->sample = sample_;
    writing_->awaits_sample = false;
  }
  for (CheckpointReady& ready : std::exchange(unsaid_, {})) {
    ready.sample = sample_;
    context_.say(ready);
  }
}

void Replica::start_writing(const WriteCheckpointTo& command,
                            std::unique_ptr<const outer_opt::Restaged> gathered) {
  const RoundKey& key = command.command.key;
  if (!participant_ || participant_->held() != key) {
    return say_failed(
        command,
        {Code::kConflict, "the replica does not hold round " + std::to_string(key.round), "", ""});
  }
  auto state = loop_->shared_state();
  const bool shared = state->shares_adam();
  if (!shared && cut_moments_->m.empty()) {
    cut_moments_ = std::make_shared<const CutMoments>(read_moments(key));
  }
  writing_ =
      std::make_unique<Writing>(Writing{command, std::move(state), shared ? nullptr : cut_moments_,
                                        std::move(gathered), held_step_, sample_, sampling_});
  if (!context_.compute.writes_beside_training()) {
    writing_->part = write_files(*writing_);
    return end_writing();
  }
  writer_.start([this, work = writing_.get()](std::uint64_t number, std::stop_token) {
    const MaybeFailure thrown = context_.compute.guarded([&] { work->part = write_files(*work); });
    if (thrown) work->part = Error{Code::kInternal, thrown->detail, "", ""};
    context_.queue.push(CheckpointWritten{number});
  });
}

void Replica::checkpoint_written(const CheckpointWritten& event) {
  if (event.work == writer_.current()) end_writing();
}

void Replica::end_writing() {
  writer_.wait();
  if (const auto done = std::move(writing_)) say_written(std::move(*done));
}

Result<WrittenPart> Replica::write_files(const Writing& writing) const {
  const OuterState& state = *writing.state;
  const RoundKey& key = writing.command.command.key;
  const std::filesystem::path folder = writing.command.folder;
  const bool shared = !writing.moments;
  std::vector<NamedValues> outer;
  if (!shared) outer = views_of(state.vectors);
  if (writing.gathered) {
    outer = {{kMomentum[0], writing.gathered->shards.at(loop_->values_of(0).front())}};
  }
  const CutMoments none{.key = key};
  const CutMoments& cut = writing.moments ? *writing.moments : none;
  const auto moments = [&](std::size_t i, const std::vector<float>& own) {
    return std::span(shared ? vector_of(state.vectors, kSharedMoments[i]) : own);
  };
  const CheckpointContent content{spec_,
                                  cut_,
                                  stage_,
                                  key,
                                  writing.step,
                                  state.anchor,
                                  std::move(outer),
                                  moments(0, cut.m),
                                  moments(1, cut.v),
                                  shared ? key.round : cut.step};
  if (Status finite = check_finite(content); !finite) return finite.error();
  return context_.compute.write_checkpoint(folder, content);
}

}  // namespace shoal::replica
